// Paged attention: softmax(scale * Q K^T) V over keys that lie in blocks of a cache, one row a token.
//
// The contract is ops/paged_attention.py's and shared by all arms (common.h has the parameter list).
// The ladder, each arm with its one idea; one of them is compiled into a code object:
//   online      one key at a time, the whole workgroup in step      (HIPBOOK_ARM_ONLINE)
//   decode      a wave takes a key: no barrier between keys         (HIPBOOK_ARM_DECODE)
//   decode_gqa  a K or V row is loaded once for a group of heads    (HIPBOOK_ARM_DECODE_GQA)
//   split_kv    the keys of a token are dealt out to many workgroups (HIPBOOK_ARM_SPLIT_KV)
//
// Bytes that any arm must read for a token: 2 * keys * num_kv_heads * D * bytes of an element.

#if defined(HIPBOOK_ARM_ONLINE)
#include "online.h"
#elif defined(HIPBOOK_ARM_DECODE)
#include "decode.h"
#elif defined(HIPBOOK_ARM_DECODE_GQA)
#include "decode_gqa.h"
#elif defined(HIPBOOK_ARM_SPLIT_KV)
#include "split_kv.h"
#else
#error "no arm: define one of HIPBOOK_ARM_ONLINE, _DECODE, _DECODE_GQA, _SPLIT_KV"
#endif
