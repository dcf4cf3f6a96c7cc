// Paged attention for many query tokens of a request at once: chunked and full prefill.
//
// Contract, parameters and build macros are paged_attention.hip's; the one arm is in prefill.h.

#include "prefill.h"
