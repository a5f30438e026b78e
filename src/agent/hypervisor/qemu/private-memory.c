/*
 * Preloaded into a QEMU whose guest memory is a private mapping of a file of a snapshot or template. QEMU's arguments
 * declare the memory as shared, because QEMU then omits it from saved states (x-ignore-shared); this library makes the
 * mapping private. QEMU 7.2 opens the file for writing and frees ballooned memory by punching holes into the file, so
 * all clones of the snapshot would read zeros. This library opens the file read-only, so that it cannot change, and
 * reports a punched hole as successful without making one. QEMU then drops the page of the private mapping, which frees
 * its memory.
 *
 * New memory is a memfd. QEMU 8.1 and newer do not omit a memfd from saved states, because it has no name. Their
 * arguments name a file (MOTE_SHARED_MEMORY), and this library opens a memfd in its place.
 */
#include <stddef.h>

enum { SYS_open = 2, SYS_mmap = 9, SYS_fcntl = 72, SYS_fallocate = 285, SYS_memfd_create = 319 };
enum { WRITE_BITS = 3, TO_READ_WRITE = 2, CREATE = 0100, F_GET_FLAGS = 3, PUNCH_HOLE = 2 };
enum { MAP_KIND = 15, MAP_SHARED = 1, MAP_PRIVATE = 2, CLOSE_ON_EXEC = 1 };

extern char *getenv(const char *name);
extern int *__errno_location(void);

static long call(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  if (result >= 0 || result < -4095) return result;
  *__errno_location() = (int)-result;
  return -1;
}

static int is_named(const char *path, const char *variable) {
  const char *memory = getenv(variable);
  if (!memory) return 0;
  while (*path && *path == *memory) path++, memory++;
  return *path == *memory;
}

static int memory_fd = -1;

static int open_file(const char *path, int flags, unsigned mode) {
  int writes = (flags & WRITE_BITS) == TO_READ_WRITE;
  if (writes && is_named(path, "MOTE_SHARED_MEMORY"))
    return (int)call(SYS_memfd_create, (long)"memory-backend-memfd", CLOSE_ON_EXEC, 0, 0, 0, 0);
  int memory = writes && is_named(path, "MOTE_PRIVATE_MEMORY");
  if (memory) flags &= ~WRITE_BITS;
  int fd = (int)call(SYS_open, (long)path, flags, mode, 0, 0, 0);
  if (memory) memory_fd = fd;
  return fd;
}

void *mmap64(void *at, size_t length, int protection, int flags, int fd, long offset) {
  if (fd >= 0 && fd == memory_fd && (flags & MAP_KIND) == MAP_SHARED) flags = (flags & ~MAP_KIND) | MAP_PRIVATE;
  return (void *)call(SYS_mmap, (long)at, (long)length, protection, flags, fd, offset);
}
void *mmap(void *at, size_t length, int protection, int flags, int fd, long offset) __attribute__((alias("mmap64")));

int open64(const char *path, int flags, ...) {
  __builtin_va_list arguments;
  __builtin_va_start(arguments, flags);
  unsigned mode = flags & CREATE ? __builtin_va_arg(arguments, unsigned) : 0;
  __builtin_va_end(arguments);
  return open_file(path, flags, mode);
}
int open(const char *path, int flags, ...) __attribute__((alias("open64")));

/* Fortified builds call this function when open has no mode argument. */
int __open64_2(const char *path, int flags) {
  return open_file(path, flags, 0);
}

int fallocate64(int fd, int mode, long offset, long length) {
  if (mode & PUNCH_HOLE && (call(SYS_fcntl, fd, F_GET_FLAGS, 0, 0, 0, 0) & WRITE_BITS) == 0) return 0;
  return (int)call(SYS_fallocate, fd, mode, offset, length, 0, 0);
}
int fallocate(int fd, int mode, long offset, long length) __attribute__((alias("fallocate64")));
