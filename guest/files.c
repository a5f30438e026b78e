/* File tools of a session: they run like a program of the image, as its user, but need nothing of the image. */
#include "mote.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, NO_REPLACE = 1 };

int file_fault(const char *path) {
  dprintf(2, "%s: %s\n", path, strerror(errno));
  return -1;
}

/* Returns -1 on an error, and fewer bytes only at the end of the file. */
ssize_t read_full(int fd, char *bytes, size_t size) {
  size_t used = 0;
  for (ssize_t got = 1; got > 0 && used < size; used += got > 0 ? (size_t)got : 0)
    if ((got = read(fd, bytes + used, size - used)) < 0) return -1;
  return (ssize_t)used;
}

int write_full(int fd, const char *bytes, size_t size) {
  for (size_t used = 0; used < size;) {
    ssize_t put = write(fd, bytes + used, size - used);
    if (put < 0) return -1;
    used += (size_t)put;
  }
  return 0;
}

static char temporary[PATH_BYTES + 32];
static void give_up(int number) {
  if (*temporary) unlink(temporary);
  _exit(128 + number);
}

/* Makes the directory and its parents. */
void make_path(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) *slash = 0, mkdir(path, 0755), *slash = '/';
  mkdir(path, 0755);
}

/* Makes the parents of the path. */
void make_parents(const char *path) {
  char parent[PATH_BYTES];
  snprintf(parent, sizeof parent, "%s", path);
  char *slash = strrchr(parent, '/');
  if (slash && slash != parent) *slash = 0, make_path(parent);
}

/*
 * A file beside `path` that replaces it when it is complete: readers see the old file or the whole new one. A client that
 * gives up leaves nothing, because the session ends with a signal then.
 */
int begin_file(const char *path) {
  struct sigaction action = {.sa_handler = give_up};
  int ends[] = {SIGHUP, SIGINT, SIGTERM, SIGPIPE};
  for (int i = 0; i < 4; i++) sigaction(ends[i], &action, NULL);
  snprintf(temporary, sizeof temporary, "%s.mote-%d", path, (int)getpid());
  return open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* mode: of the new file, or -1 to keep the one of the file that is replaced. */
int finish_file(int fd, const char *path, int mode) {
  struct stat old;
  int exists = lstat(path, &old) == 0 && S_ISREG(old.st_mode);
  if (exists && fchown(fd, old.st_uid, old.st_gid) < 0) errno = 0; /* only root can keep a foreign owner */
  mode_t final = mode >= 0 ? (mode_t)mode : exists ? old.st_mode & 07777 : 0644;
  int result = fchmod(fd, final) < 0 || fsync(fd) < 0 ? -1 : 0;
  if (close(fd) < 0) result = -1;
  if (result == 0 && rename(temporary, path) < 0) result = -1;
  if (result < 0) {
    int reason = errno;
    unlink(temporary);
    errno = reason;
  }
  *temporary = 0;
  return result;
}

/* Copies at most `most` bytes. Returns how many there were, or -1. */
static long long copy(int from, int to, long long most) {
  static char bytes[1 << 16];
  long long copied = 0;
  ssize_t got = 1;
  while (copied < most && got > 0) {
    size_t wanted = most - copied < (long long)sizeof bytes ? (size_t)(most - copied) : sizeof bytes;
    if ((got = read(from, bytes, wanted)) < 0 || write_full(to, bytes, (size_t)got) < 0) return -1;
    copied += got;
  }
  return copied;
}

static int read_file(char **argv) {
  int fd = open(argv[0], O_RDONLY | O_CLOEXEC);
  return fd < 0 || copy(fd, 1, INT64_MAX) < 0 ? file_fault(argv[0]) : 0;
}

/*
 * `<path> <first> <last> <version>`: a line `<bytes> <version> <first> <count>`, then `count` bytes. An empty `first` is the whole
 * file, a negative one counts from the end. The range is ignored if the file has another version than the one
 * that is given. -1 bytes: the size is unknown, as under /proc. -1 as the first byte: the range is behind the end.
 */
static int get_file(char **argv) {
  struct stat of;
  int fd = open(argv[0], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &of) < 0) return file_fault(argv[0]);
  if (S_ISDIR(of.st_mode)) return errno = EISDIR, file_fault(argv[0]);
  if (!S_ISREG(of.st_mode)) return dprintf(2, "%s: Not a regular file\n", argv[0]), -1;
  char version[80];
  snprintf(version, sizeof version, "%llx-%llx-%llx-%llx.%lx", (unsigned long long)of.st_dev, (unsigned long long)of.st_ino,
           (unsigned long long)of.st_size, (unsigned long long)of.st_mtim.tv_sec, (unsigned long)of.st_mtim.tv_nsec);
  long long size = of.st_size, first = 0, last = size - 1;
  int whole = !argv[1] || !*argv[1] || (argv[2] && argv[3] && *argv[3] && strcmp(argv[3], version));
  if (!whole) {
    first = strtoll(argv[1], NULL, 10);
    if (first < 0) first = size + first < 0 ? 0 : size + first;
    if (argv[2] && *argv[2] && strtoll(argv[2], NULL, 10) < last) last = strtoll(argv[2], NULL, 10);
    if (first > last) return dprintf(1, "%lld %s -1 0\n", size, version), 0;
  }
  long long count = last - first + 1;
  dprintf(1, "%lld %s %lld %lld\n", size ? size : -1, version, first, count);
  if (lseek(fd, first, SEEK_SET) < 0) return file_fault(argv[0]);
  long long sent = copy(fd, 1, size ? count : INT64_MAX);
  if (sent >= 0 && sent < count) return dprintf(2, "%s: The file became shorter\n", argv[0]), -1;
  return sent < 0 ? file_fault(argv[0]) : 0;
}

/* `<bytes> <free bytes> <bytes that this user can write>` of the file system with this path. */
static int show_space(char **argv) {
  struct statvfs of;
  if (statvfs(argv[0], &of) < 0) return file_fault(argv[0]);
  unsigned long long unit = of.f_frsize ? of.f_frsize : of.f_bsize;
  return dprintf(1, "%llu %llu %llu\n", of.f_blocks * unit, of.f_bfree * unit, of.f_bavail * unit);
}

static int write_file(char **argv) {
  struct stat old;
  if (stat(argv[0], &old) == 0 && S_ISDIR(old.st_mode)) return errno = EISDIR, file_fault(argv[0]);
  make_parents(argv[0]);
  int fd = begin_file(argv[0]);
  if (fd < 0) return file_fault(argv[0]);
  if (copy(0, fd, INT64_MAX) < 0) {
    int reason = errno;
    unlink(temporary);
    errno = reason;
    return file_fault(argv[0]);
  }
  return finish_file(fd, argv[0], argv[1] ? (int)strtol(argv[1], NULL, 8) : -1) < 0 ? file_fault(argv[0]) : 0;
}

static char type_of(mode_t mode) { return S_ISDIR(mode) ? 'd' : S_ISREG(mode) ? 'f' : S_ISLNK(mode) ? 'l' : 'o'; }

/* `<type> <mode> <bytes> <mtime> <path> <link target> <type of the target>`, with encoded words. */
static int list_one(const char *path, const struct stat *stat_of) {
  struct stat at;
  char target[PATH_BYTES] = "", name[3 * PATH_BYTES + 1], to[3 * PATH_BYTES + 1];
  ssize_t length = S_ISLNK(stat_of->st_mode) ? readlink(path, target, sizeof target - 1) : 0;
  encode(name, path, strlen(path));
  encode(to, target, length < 0 ? 0 : (size_t)length);
  char type = type_of(stat_of->st_mode);
  const char *leads = type != 'l' ? "" : stat(path, &at) < 0 ? " -" : (char[]){' ', type_of(at.st_mode), 0};
  return dprintf(1, "%c %o %lld %lld %s %s%s\n", type, stat_of->st_mode & 07777, (long long)stat_of->st_size,
                 (long long)stat_of->st_mtime, name, to, leads);
}

/* Entries that disappear during a walk are skipped. */
static int walk(char *path, int depth, int (*visit)(const char *path, const struct stat *stat_of), int after) {
  struct stat stat_of;
  if (lstat(path, &stat_of) < 0) return -1;
  if (!after && visit(path, &stat_of) < 0) return -1;
  size_t length = strlen(path);
  DIR *dir = S_ISDIR(stat_of.st_mode) && depth > 0 ? opendir(path) : NULL;
  int result = 0;
  for (struct dirent *entry; dir && result == 0 && (entry = readdir(dir));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    int more = snprintf(path + length, PATH_BYTES - length, "%s%s", path[length - 1] == '/' ? "" : "/", entry->d_name);
    if (length + (size_t)more < PATH_BYTES && walk(path, depth - 1, visit, after) < 0 && errno != ENOENT) result = -1;
    path[length] = 0;
  }
  if (dir) closedir(dir);
  return result < 0 || (after && visit(path, &stat_of) < 0) ? -1 : 0;
}

int walk_files(const char *from, int depth, int (*visit)(const char *path, const struct stat *stat_of), int after) {
  static char path[PATH_BYTES + 256];
  if (!*from || strlen(from) >= PATH_BYTES) return errno = *from ? ENAMETOOLONG : ENOENT, file_fault(from);
  snprintf(path, sizeof path, "%s", from);
  return walk(path, depth, visit, after) < 0 ? file_fault(path) : 0;
}

static int remove_one(const char *path, const struct stat *stat_of) {
  return S_ISDIR(stat_of->st_mode) ? rmdir(path) : unlink(path);
}

static int list_files(char **argv) { return walk_files(argv[0], argv[1] ? atoi(argv[1]) : 0, list_one, 0); }
static int remove_files(char **argv) {
  return walk_files(argv[0], argv[1] && *argv[1] == '1' ? 1 << 20 : 0, remove_one, 1);
}
static int make_directory(char **argv) {
  struct stat stat_of;
  make_path(argv[0]);
  if (stat(argv[0], &stat_of) == 0 && !S_ISDIR(stat_of.st_mode)) errno = ENOTDIR;
  return stat(argv[0], &stat_of) < 0 || !S_ISDIR(stat_of.st_mode) ? file_fault(argv[0]) : 0;
}

/* `<path> <to> <1: refuse to replace>`. Not every file system can refuse at once, so those are asked before. */
static int move_file(char **argv) {
  struct stat of;
  if (!argv[1]) return errno = EINVAL, file_fault(argv[0]);
  if (!argv[2] || *argv[2] != '1') return rename(argv[0], argv[1]) < 0 ? file_fault(argv[0]) : 0;
  if (syscall(SYS_renameat2, AT_FDCWD, argv[0], AT_FDCWD, argv[1], NO_REPLACE) == 0) return 0;
  if (errno == EEXIST) return file_fault(argv[1]);
  if (errno != EINVAL && errno != ENOSYS) return file_fault(argv[0]);
  if (lstat(argv[1], &of) == 0) return errno = EEXIST, file_fault(argv[1]);
  return rename(argv[0], argv[1]) < 0 ? file_fault(argv[0]) : 0;
}
static int pack_files(char **argv) { return tar_pack(argv[0]); }
static int unpack_files(char **argv) { return tar_unpack(argv[0]); }
static int show_processes(char **argv) { return (void)argv, list_processes(); }
static int serve_sftp(char **argv) { return (void)argv, sftp_serve(); }

/* Runs `argv[0]` of the tools below with its arguments, and returns the exit code. */
int file_tool(char *const *argv) {
  static const struct {
    const char *name;
    int (*run)(char **argv);
  } tools[] = {{"read", read_file},      {"write", write_file}, {"list", list_files}, {"remove", remove_files},
               {"mkdir", make_directory}, {"move", move_file},   {"pack", pack_files}, {"unpack", unpack_files},
               {"get", get_file},         {"space", show_space}, {"sftp", serve_sftp},   {"watch", watch_files},
               {"processes", show_processes}};
  char *arguments[5] = {0};
  int needs_path = strcmp(argv[0], "sftp") && strcmp(argv[0], "processes");
  for (int i = 0; i < 4 && argv[i] && argv[i + 1]; i++) arguments[i] = argv[i + 1];
  for (size_t i = 0; (argv[1] || !needs_path) && i < sizeof tools / sizeof *tools; i++)
    if (!strcmp(argv[0], tools[i].name)) return tools[i].run(arguments) < 0;
  dprintf(2, "no such file tool\n");
  return 2;
}
