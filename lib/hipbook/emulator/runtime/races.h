// Races between workgroups in global memory: two touch the same bytes, one of them plainly writes, and
// nothing orders them.
//
// Each buffer that may be written has a shadow of two words a granule (its element, at most 4 bytes): who
// wrote it last and who read it last. Work is divided into intervals; a shadow word is twice an interval's
// number, plus one for an atomic.
//   A kernel whose atomics return nothing cannot order its workgroups. An interval is a workgroup, each
//   thread
// has shadows of its own, and they are compared when all is done. Whatever the threads, the same kernels
// race.
//   A kernel with atomics that return a value, or loads that other workgroups' stores reach (`ordered`), runs
// its workgroups one after the other. There an atomic ends an interval (release) and is ordered after whoever
// updated the same bytes before it (acquire), if its workgroup also executes a fence of device scope: a graph
// of intervals, searched only when two workgroups meet.
#ifndef HIPBOOK_RACES_H
#define HIPBOOK_RACES_H
#include "memory.h"

int races_begin(Thread* t);  // 0: no memory
void races_begin_group(Thread* t, u64 id);
void races_end(Thread* t);
int races_between(const Launch* l, Shadow* const* shadows, u32 threads);  // of different threads

#endif
