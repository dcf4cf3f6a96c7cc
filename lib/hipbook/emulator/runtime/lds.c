// LDS: bank conflicts, and the shadow that finds reads of unwritten bytes and races between waves.
#include "lds.h"

// Bank conflicts of one instruction: 32 banks of 4 bytes; lanes go in groups whose bytes fill the banks once
// (32 lanes of up to 4 bytes, 16 of 8, 8 of 12 or 16); a group needs one pass more for each further distinct
// word that its busiest bank holds.
u32 lds_conflicts(const u64* addr, u32 exec, u32 size) {
  if (size <= 4) {
    u32 banks = 0;
    u64 same = 0;
    u64 first = addr[__builtin_ctz(exec)] >> 2;
    for (int i = 0; i < LANES; i++) {
      u32 active = (exec >> i) & 1;
      banks |= active << ((addr[i] >> 2) & 31);
      same |= -(u64)active & ((addr[i] >> 2) ^ first);
    }
    if (!same || __builtin_popcount(banks) == __builtin_popcount(exec)) return 0;
  }
  u32 words = (size + 3) / 4, group = words <= 1 ? 32 : words == 2 ? 16 : 8, conflicts = 0;
  for (u32 g = 0; g < LANES; g += group) {
    u32 active = (u32)((((u64)1 << group) - 1) << g) & exec;
    if (!active) continue;
    u64 seen[32][32];
    u8 depth[32] = {0};
    u32 busiest = 1;
    for (u32 m = active; m; m &= m - 1) {
      u64 word = addr[__builtin_ctz(m)] >> 2;
      for (u32 k = 0; k < words; k++, word++) {
        u32 b = word & 31, n = depth[b], d = 0;
        while (d < n && seen[b][d] != word) d++;
        if (d < n || n == 32) continue;
        seen[b][n] = word;
        depth[b] = (u8)(n + 1);
        if (n + 1u > busiest) busiest = n + 1u;
      }
    }
    conflicts += busiest - 1;
  }
  return conflicts;
}

// Shadow of LDS: for each byte, who last wrote and who last read it, as a 16-bit tag: wave (5 bits), atomic,
// several waves, barrier epoch (9 bits). Tag 0: never written. Two waves that touch a byte in the same epoch,
// one of them writing, race; atomics do not race with each other.
#define EVERY16 0x0001000100010001ull
#define EPOCH (0xff80ull * EVERY16)
enum { TAG_ATOMIC = 0x20, TAG_SEVERAL = 0x40 };

static inline u64 any_zero16(u64 x) { return (x - EVERY16) & ~x & (0x8000ull * EVERY16); }
static inline u64 tags_at(const u16* p) {
  u64 x;
  memcpy(&x, p, 8);
  return x;
}
static inline int current(u16 tag, u32 mine) { return ((tag ^ mine) & 0xff80) == 0; }

COLD int race(Wave* w, const Rec* r, u32 lane, u64 at, u32 size, u32 store, u16 tag) {
  stop_with_fault(w, r, FAULT_LDS_RACE, lane, at, size, store, tag);
  return 0;
}

static int load_bytes(Wave* w, const Rec* r, u32 lane, u64 addr, u32 size) {
  u32 mine = w->tag;
  for (u64 at = addr; at < addr + size; at++) {
    u16 wrote = w->t->lds_writer[at], *read = &w->t->lds_reader[at];
    if (!wrote) {
      stop_with_fault(w, r, FAULT_LDS_UNWRITTEN, lane, at, size, 0, 0);
      return 0;
    }
    if (current(wrote, mine) && ((wrote & TAG_SEVERAL) || (wrote & 31) != (mine & 31)))
      return race(w, r, lane, addr, size, 0, wrote);
    if (!current(*read, mine))
      *read = (u16)mine;
    else if ((*read & 31) != (mine & 31))
      *read |= TAG_SEVERAL;
  }
  return 1;
}

int lds_load_check(Wave* w, const Rec* r, const u64* addr, u32 exec, u32 size) {
  u64 mine = w->tag * EVERY16;
  for (u32 m = exec; m; m &= m - 1) {
    u32 i = (u32)__builtin_ctz(m);
    if (size < 4) {
      if (!load_bytes(w, r, i, addr[i], size)) return 0;
      continue;
    }
    for (u64 at = addr[i]; at < addr[i] + size; at += 4) {
      u64 wrote = tags_at(w->t->lds_writer + at), read = tags_at(w->t->lds_reader + at);
      int fine = wrote == mine || !(any_zero16(wrote) | any_zero16((wrote ^ mine) & EPOCH));
      if (fine && read == mine) continue;
      if (fine && !any_zero16((read ^ mine) & EPOCH))
        memcpy(w->t->lds_reader + at, &mine, 8);
      else if (!load_bytes(w, r, i, at, 4))
        return 0;
    }
  }
  return 1;
}

// `data`: the bytes about to be stored. Two waves that store the same value do not race (compilers spread
// replicated values so); whoever reads it needs a barrier all the same.
static int store_bytes(Wave* w, const Rec* r, u32 lane, u64 addr, u32 size, const u8* data) {
  u32 mine = w->tag;
  for (u64 at = addr; at < addr + size; at++) {
    u16 *wrote = &w->t->lds_writer[at], read = w->t->lds_reader[at];
    int other = *wrote && current(*wrote, mine) && ((*wrote & TAG_SEVERAL) || (*wrote & 31) != (mine & 31));
    if (other && (*wrote & TAG_ATOMIC || w->t->lds[at] != data[at - addr]))
      return race(w, r, lane, addr, size, 1, *wrote);
    if (read && current(read, mine) && ((read & TAG_SEVERAL) || (read & 31) != (mine & 31)))
      return race(w, r, lane, addr, size, 1, read);
    *wrote = other ? *wrote | TAG_SEVERAL : (u16)mine;
  }
  return 1;
}

int lds_store_check(Wave* w, const Rec* r, const u64* addr, u32 exec, u32 size, u32 src, int high) {
  u64 mine = w->tag * EVERY16;
  for (u32 m = exec; m; m &= m - 1) {
    u32 i = (u32)__builtin_ctz(m), x = 0;
    if (size < 4) {
      x = w->v[src][i] >> (high ? 16 : 0);
      if (!store_bytes(w, r, i, addr[i], size, (const u8*)&x)) return 0;
      continue;
    }
    for (u32 k = 0; k < size / 4; k++) {
      u64 at = addr[i] + 4 * k;
      u64 wrote = tags_at(w->t->lds_writer + at), read = tags_at(w->t->lds_reader + at);
      int fine = (wrote == mine || !any_zero16((wrote ^ mine) & EPOCH)) &&
                 (read == mine || !any_zero16((read ^ mine) & EPOCH));
      if (fine)
        memcpy(w->t->lds_writer + at, &mine, 8);
      else if (!store_bytes(w, r, i, at, 4, (const u8*)&w->v[src + k][i]))
        return 0;
    }
  }
  return 1;
}

int lds_atomic_check(Wave* w, const Rec* r, const u64* addr, u32 exec, u32 size) {
  u32 mine = w->tag | TAG_ATOMIC;
  for (u32 m = exec; m; m &= m - 1) {
    u32 i = (u32)__builtin_ctz(m);
    for (u64 at = addr[i]; at < addr[i] + size; at++) {
      u16 *wrote = &w->t->lds_writer[at], read = w->t->lds_reader[at];
      int other = *wrote && current(*wrote, mine) && ((*wrote & TAG_SEVERAL) || (*wrote & 31) != (mine & 31));
      if (!*wrote) {
        stop_with_fault(w, r, FAULT_LDS_UNWRITTEN, i, at, size, 1, 0);
        return 0;
      }
      if (other && !(*wrote & TAG_ATOMIC)) return race(w, r, i, addr[i], size, 1, *wrote);
      if (read && current(read, mine) && ((read & TAG_SEVERAL) || (read & 31) != (mine & 31)))
        return race(w, r, i, addr[i], size, 1, read);
      // a plain store of this wave stays plain for the others
      if (!(current(*wrote, mine) && !(*wrote & TAG_ATOMIC)))
        *wrote = (u16)(mine | (other ? TAG_SEVERAL : 0));
    }
  }
  return 1;
}
