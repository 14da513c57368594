/* Put every allocation of posix_memalign, and so every storage of a tensor, between pages that
 * nobody may touch. For LD_PRELOAD on Linux:
 *
 *     cc -shared -fPIC -O1 -o guard_pages.so fuzz/guard_pages.c
 *     LD_PRELOAD=./guard_pages.so python script.py
 *
 * A read or write beyond the end is a SIGSEGV; one before the beginning is, with GUARD_FRONT=1.
 * What lies between an allocation and its guard holds a canary, and the process is aborted when
 * the canary has changed as the memory is freed. Freed memory is never mapped again. New memory
 * is full of 0xCB, so that indices which nobody has written point far away.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define LOWEST ((uintptr_t)0x300000000000)
#define HIGHEST ((uintptr_t)0x500000000000)
#define ALIGNMENT ((size_t)16) /* what kernels of torch need, of the 64 that it asks for */
#define CANARY 0xA5
#define FILLING 0xCB
#define FILLED ((size_t)1 << 16)
#define APART ((size_t)1 << 18) /* far indices should not reach another allocation */

/* Stands in a page of its own, before the first guard. */
struct block {
  size_t size;   /* as it was asked for */
  size_t mapped; /* this page and both guards included */
};

static _Atomic uintptr_t next_address = LOWEST;
static void (*real_free)(void *);

static size_t up_to(size_t number, size_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

static int is_ours(const void *pointer) {
  return (uintptr_t)pointer >= LOWEST && (uintptr_t)pointer < HIGHEST;
}

static unsigned char *first_byte(const void *pointer) {
  return (unsigned char *)((uintptr_t)pointer / PAGE * PAGE);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
  if (alignment <= 64 && alignment > ALIGNMENT) alignment = ALIGNMENT;
  size_t room = up_to(up_to(size ? size : 1, alignment), PAGE);
  size_t mapped = room + 3 * PAGE;
  if (size > SIZE_MAX / 4 || alignment > PAGE) return ENOMEM;
  uintptr_t address = atomic_fetch_add(&next_address, mapped + APART);
  if (address + mapped > HIGHEST) return ENOMEM;
  unsigned char *start = mmap((void *)address, mapped, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (start == MAP_FAILED) return ENOMEM;
  struct block *block = (struct block *)start;
  block->size = size;
  block->mapped = mapped;
  unsigned char *data = start + 2 * PAGE;
  size_t before = getenv("GUARD_FRONT") ? 0 : room - up_to(size ? size : 1, alignment);
  memset(data, CANARY, before);
  memset(data + before, FILLING, size < FILLED ? size : FILLED);
  size_t behind = room - before - size;
  memset(data + before + size, CANARY, behind);
  mprotect(start + PAGE, PAGE, PROT_NONE);
  mprotect(data + room, PAGE, PROT_NONE);
  *result = data + before;
  return 0;
}

static void check(const unsigned char *from, const unsigned char *to, const char *where) {
  for (; from < to; from++) {
    if (*from != CANARY) {
      fprintf(stderr, "guard_pages: written %s an allocation\n", where);
      abort();
    }
  }
}

void free(void *pointer) {
  if (!is_ours(pointer)) {
    if (!real_free) real_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    real_free(pointer);
    return;
  }
  unsigned char *data = first_byte(pointer), *start = data - 2 * PAGE;
  struct block block = *(struct block *)start;
  unsigned char *given = pointer;
  check(data, given, "before");
  check(given + block.size, start + block.mapped - PAGE, "behind");
  munmap(start, block.mapped);
}
