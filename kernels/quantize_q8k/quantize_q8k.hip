// Q8_K quantizer: 256 activations become 292 bytes, f32 d, int8 qs[256], int16 bsums[16].
//
// The rule is ops/quantize_q8k.py's and shared by all arms (common.h has the parameter list). One of them
// is compiled into a code object:
//   serial   one thread a block                     (HIPBOOK_ARM_SERIAL)
//   block    one workgroup a block, trees in LDS    (HIPBOOK_ARM_BLOCK)
//   wave     one wave a block, moves across lanes   (HIPBOOK_ARM_WAVE)
//
// Bytes that any arm must read for a block: 256 * bytes of an element; it writes 292.

#if defined(HIPBOOK_ARM_SERIAL)
#include "serial.h"
#elif defined(HIPBOOK_ARM_BLOCK)
#include "block.h"
#elif defined(HIPBOOK_ARM_WAVE)
#include "wave.h"
#else
#error "no arm: define one of HIPBOOK_ARM_SERIAL, _BLOCK, _WAVE"
#endif
