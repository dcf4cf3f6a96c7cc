// What the parts of the scheduler share.
#ifndef HIPBOOK_SCHEDULE_H
#define HIPBOOK_SCHEDULE_H
#include "wave.h"

void start_wave(Wave* w, Thread* t, Group* g, u32 id);
void run_wave(Wave* w, u64 budget, const int* stop);
void run_wave_profiled(Wave* w, u64 budget, const int* stop);  // for launches with a profile
int run_group(Thread* t, u64 id, const int* stop);             // 0: it faulted or was asked to stop
void add_results(Launch* l, const Thread* t);
void* reserve(size_t bytes);  // zeroed address space, or NULL

#endif
