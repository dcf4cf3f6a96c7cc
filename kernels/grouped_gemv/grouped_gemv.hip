// Grouped K-quant GEMV: row p of the result is W[expert_ids[p]] times row p of Q8_K activations, W in Q4_K or
// Q6_K.
//
// The contract is ops/grouped_gemv.py's and shared by all arms (common.h has the parameter list). One of them
// is compiled into a code object:
//   superblock  a lane a superblock                 (HIPBOOK_ARM_SUPERBLOCK)
//   spread      sixteen lanes a superblock          (HIPBOOK_ARM_SPREAD)

#if defined(HIPBOOK_ARM_SUPERBLOCK)
#include "superblock.h"
#elif defined(HIPBOOK_ARM_SPREAD)
#include "spread.h"
#else
#error "no arm: define HIPBOOK_ARM_SUPERBLOCK or HIPBOOK_ARM_SPREAD"
#endif
