// GDN post-conv: after the convolution of a gated delta net, q and k get unit length, V is copied out, and
// the gates g and beta are made of a and b.
//
// The contract is ops/gdn_post_conv.py's and shared by all arms (common.h has the parameter list). One of
// them is compiled into a code object:
//   serial   one thread a head, one for the V row and gates  (HIPBOOK_ARM_SERIAL)
//   chunked  the V row shared out among threads              (HIPBOOK_ARM_CHUNKED)
//   wave     one wave a head, a stretch of V, or the gates   (HIPBOOK_ARM_WAVE)
//
// Bytes that any arm must read and write for a token: twice the conv row, a, b, and 8 a V head.

#if defined(HIPBOOK_ARM_SERIAL)
#include "serial.h"
#elif defined(HIPBOOK_ARM_CHUNKED)
#include "chunked.h"
#elif defined(HIPBOOK_ARM_WAVE)
#include "wave.h"
#else
#error "no arm: define one of HIPBOOK_ARM_SERIAL, _CHUNKED, _WAVE"
#endif
