// The machine's state and the record an instruction is decoded to.
//
// A wave is 32 lanes. VGPRs are arrays of 32 words, so that every handler is a loop over lanes which the
// compiler turns into vector code. SGPRs, VCC, M0, EXEC, SCC and the trap temporaries share one array under
// their operand numbers of the ISA document (VCC_LO 106, M0 125, EXEC_LO 126, SCC 253), so that reading any
// of them as a source needs no special case. Writes to NULL (124) go to TRASH.
#ifndef HIPBOOK_WAVE_H
#define HIPBOOK_WAVE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

typedef uint8_t u8;
typedef int8_t i8;
typedef uint16_t u16;
typedef int16_t i16;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef int64_t i64;
typedef float f32;
typedef double f64;
typedef _Float16 f16;
typedef unsigned __int128 u128;

#define LANES 32
#define ALIGNED __attribute__((aligned(64)))
#define INLINE static inline __attribute__((always_inline))
#define COLD static __attribute__((noinline, cold))

enum { VCC = 106, TTMP0 = 108, NUL = 124, M0 = 125, EXEC = 126, SCC = 253, TRASH = 254 };
enum { MAX_VGPRS = 256, TEMP_VGPRS = 8, MAX_VIEWS = 64, MAX_WAVES = 32, MAX_LEVELS = 4 };

enum { NONE, VGPR, SGPR, CONSTANT };                    // Operand.kind
enum { ABS = 1, NEG = 2, HI = 4, HI2 = 8, NEG2 = 16 };  // Operand.flags; HI2, NEG2: of the upper half (VOP3P)
enum { CLAMP = 1, OMOD_SHIFT = 1, DST_HI = 8, RETURN = 16, NO_SADDR = 32, NO_VADDR = 64 };  // Rec.flags
enum { COHERENT = 128, SRC_HI = 256 };  // memory: other workgroups' stores are seen; the upper half is stored

typedef struct {
  u8 kind, flags;
  u16 index;  // of a VGPR, of an SGPR, or into the pool of constants
} Operand;

typedef struct Wave Wave;
typedef struct Rec Rec;
typedef const Rec* (*Handler)(Wave*, const Rec*);  // NULL: the wave stops, Wave.stop says why

struct Rec {
  Handler fn;
  Operand src[4];
  u16 dst, dst2;
  u32 flags;
  u32 target;  // of a branch: index of a record
  u32 slot;    // of a memory instruction: its address cache
  i64 offset;  // immediate offset of a memory instruction, simm16, ...
  u64 extra;   // DPP controls, second offset, ...
} __attribute__((aligned(64)));

typedef struct {
  u64 executions, lanes;
} Count;

// One strided piece of memory that a kernel may touch: an argument's view, the kernel arguments, the code.
// `levels` outer dimensions of `count[l]` steps of `stride[l]` bytes, largest stride first, over `inner`
// bytes.
typedef struct {
  u64 va, span;
  u64 stride[MAX_LEVELS], count[MAX_LEVELS];
  u64 inner;
  u32 levels, access;  // access: 1 read, 2 write
  u8* host;
  u8* written;     // one byte a byte of the span, or NULL: all of it holds data
  u32 track, pad;  // 1 + the track whose shadow tells races; 0: nobody writes here
} View;

// Bytes that some view may write: a shadow word for each `1 << shift` of them.
typedef struct {
  u64 va, span;
  u32 shift, pad;
} Track;
typedef struct {
  u32 *writer, *reader;
  u8* touched;  // one a few thousand granules
} Shadow;
typedef struct Order Order;

typedef struct {
  u64 bytes_read, bytes_written, loads, stores, live_lanes;
} ViewCount;

// The last piece a memory instruction found its lanes in: [lo, hi) lies in one view without a gap.
typedef struct {
  u64 lo, hi;
  u8* delta;  // host address = delta + virtual address
  u8* written_delta;
  u32 view, access, track;
} Cache;

typedef struct {
  u64 segments32, segments64, segments128;
  u64 lds_bytes_read, lds_bytes_written, lds_conflicts, barriers, waves;
} Totals;

enum { STOP_END = 1, STOP_WAIT, STOP_FAULT };

enum {
  FAULT_NONE,
  FAULT_BOUNDS,
  FAULT_READ_ONLY,
  FAULT_UNWRITTEN,
  FAULT_MISALIGNED,
  FAULT_LDS_BOUNDS,
  FAULT_LDS_UNWRITTEN,
  FAULT_LDS_RACE,
  FAULT_SCRATCH_BOUNDS,
  FAULT_SCRATCH_UNWRITTEN,
  FAULT_BARRIER_ENDED,
  FAULT_BARRIER_LANES,
  FAULT_DEADLOCK,
  FAULT_BUDGET,
  FAULT_TRAP,
  FAULT_BAD_JUMP,
  FAULT_GLOBAL_RACE,
  FAULT_FREED,
};
// Fault.other of a global race: a workgroup, or several, and what it did if not a plain store
#define RACE_SEVERAL 0xffffffffull
#define RACE_READ (1ull << 63)
#define RACE_ATOMIC (1ull << 62)

typedef struct {
  u32 kind, record, wave, lane;
  u64 workgroup, address, size, other;  // other: what the kind needs more (the other wave of a race)
  u32 store;                            // 0 a load, 1 a store, 2 an atomic
} Fault;

// What a profiled run keeps of each record: bytes of the arguments asked for, segments touched, and LDS.
typedef struct {
  u64 bytes, segments32, segments128, lds_bytes, lds_conflicts;
} Moved;

// One executed record of the workgroup that is followed, in the order of execution.
typedef struct {
  u32 record;
  u8 wave, lanes;
  u16 segments;  // of 32 bytes
} Event;

typedef struct {
  Moved* moved;    // one a record
  u64 group;       // workgroup that is followed
  u32 views, pad;  // the first so many are arguments
  Event* events;
  u64 room, n_events;
} Profile;

// What Python hands over for one dispatch.
typedef struct {
  const Rec* records;
  u64 n_records;
  const u32* pool;
  const u32* jump;  // code offset / 4 -> record index + 1, 0: not an instruction
  u64 code_va, code_bytes;
  u32 entry, checks;
  u32 grid[3], block[3];
  u32 n_vgprs, lds_bytes, scratch_bytes, n_slots;
  u32 gfx;        // 11 or 12
  u32 sgprs[32];  // user SGPRs
  u32 rsrc2, n_views;
  View* views;
  u64 wave_order_seed, max_wave_instructions;
  u32 threads, ordered;  // ordered: one thread, and atomics order the workgroups
  u32 n_tracks, raced;   // raced: a result, workgroups of different threads raced
  const Track* tracks;
  u64 shared_base, private_base;
  // results
  Count* counts;
  ViewCount* view_counts;
  Totals totals;
  Fault fault;
  Profile* profile;  // NULL: not asked for
} Launch;

typedef struct Thread Thread;

typedef struct {
  u64 id;
  u32 xyz[3];
  u32 n_waves, members, signals, phase, ended;
} Group;

struct Wave {
  u32 v[MAX_VGPRS + TEMP_VGPRS][LANES] ALIGNED;
  u32 s[256];
  const u32* pool;
  const Rec *records, *resume;
  Thread* t;
  Group* g;
  u32 id, stop, initial_exec;
  u32 waiting, signalled, signal_phase;  // of the workgroup's barrier
  u32 tag;                               // LDS shadow: epoch and wave
  u32 dpp_exec;                          // EXEC while a DPP instruction runs under its row and bank masks
  u64 executed;
  u8 *scratch, *scratch_written;
  u32 loaded[MAX_VIEWS];  // lanes that loaded from each view
};

struct Thread {
  const Launch* l;
  Count* counts;
  ViewCount* view_counts;
  Cache* caches;
  Wave* waves;
  u8* lds;
  u16 *lds_writer, *lds_reader;
  u32 checks;
  u32 race_first, race_now;  // shadow words of this workgroup's first interval, and of the present one
  Shadow* shadows;           // one a track, or NULL
  Order* order;              // NULL unless the launch is ordered
  Totals totals;
  Fault fault;
};

const Rec* stop_with_fault(Wave* w, const Rec* r, u32 kind, u32 lane, u64 address, u64 size, u32 store,
                           u64 other);

#endif
