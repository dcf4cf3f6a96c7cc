// Paged attention, the rungs between online and decode: one change an arm, so that counts (and times, on a
// board that has a clock) say what each change is worth.
//
//   online           a tree in LDS, a quarter of the lanes, one rescaling a key       (paged_attention.hip)
//   online_shuffle   lane moves instead of the tree        (HIPBOOK_ARM_ONLINE_SHUFFLE)
//   online_wide      the row over all lanes                (HIPBOOK_ARM_ONLINE_WIDE)
//   online_tile      one rescaling for a tile of keys      (HIPBOOK_ARM_ONLINE_TILE)
//   decode           a wave takes a key: no workgroup in step                         (paged_attention.hip)
//
// Contract, parameters and build macros are paged_attention.hip's. Rungs are measured, never dispatched to.

#if defined(HIPBOOK_ARM_ONLINE_SHUFFLE)
#include "online_shuffle.h"
#elif defined(HIPBOOK_ARM_ONLINE_WIDE)
#include "online_wide.h"
#elif defined(HIPBOOK_ARM_ONLINE_TILE)
#include "online_tile.h"
#else
#error "no rung: define one of HIPBOOK_ARM_ONLINE_SHUFFLE, _WIDE, _TILE"
#endif
