/* SFTP, version 3, over standard input and output (draft-ietf-secsh-filexfer-02), as a file tool of a session. */
#include "mote.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { PACKET_MAX = 1 << 18, DATA_MAX = PACKET_MAX - 1024, HANDLES_MAX = 128, NAME_BYTES = 4096, NAMES_MAX = 100 };
enum packet_type {
  INIT = 1, VERSION, OPEN, CLOSE, READ, WRITE, LSTAT, FSTAT, SETSTAT, FSETSTAT, OPENDIR, READDIR, REMOVE, MKDIR, RMDIR,
  REALPATH, STAT, RENAME, READLINK, SYMLINK, STATUS = 101, HANDLE, DATA, NAME, ATTRS, EXTENDED = 200, EXTENDED_REPLY
};
enum status { OK, END_OF_FILE, NO_SUCH_FILE, PERMISSION_DENIED, FAILURE, BAD_MESSAGE, UNSUPPORTED = 8 };
enum attribute { HAS_SIZE = 1, HAS_OWNER = 2, HAS_MODE = 4, HAS_TIMES = 8 };
enum open_flag { FOR_READ = 1, FOR_WRITE = 2, APPENDING = 4, CREATING = 8, TRUNCATING = 16, EXCLUSIVE = 32 };

static unsigned char *packet, *answer;
static size_t at, packet_length, answer_length;
static int damaged; /* the packet ended before a field */
static uint32_t request;

static struct handle {
  int used, fd;
  DIR *dir;
  char path[NAME_BYTES];
} *handles;

struct attributes {
  uint32_t flags, uid, gid, mode, accessed, modified;
  uint64_t size;
};

static uint64_t take_number(size_t bytes) {
  uint64_t number = 0;
  if (packet_length - at < bytes) return damaged = 1, 0;
  while (bytes--) number = number << 8 | packet[at++];
  return number;
}
static uint32_t take_word(void) { return (uint32_t)take_number(4); }

static const unsigned char *take_bytes(size_t *length) {
  *length = take_word();
  if (damaged || packet_length - at < *length) return damaged = 1, *length = 0, packet;
  at += *length;
  return packet + at - *length;
}

/* An empty path is the working directory. */
static const char *take_path(char path[NAME_BYTES]) {
  size_t length;
  const unsigned char *bytes = take_bytes(&length);
  if (length >= NAME_BYTES || memchr(bytes, 0, length)) return damaged = 1, path[0] = 0, path;
  memcpy(path, bytes, length);
  path[length] = 0;
  return length ? path : strcpy(path, ".");
}

static struct attributes take_attributes(void) {
  struct attributes given = {.flags = take_word()};
  if (given.flags & HAS_SIZE) given.size = take_number(8);
  if (given.flags & HAS_OWNER) given.uid = take_word(), given.gid = take_word();
  if (given.flags & HAS_MODE) given.mode = take_word();
  if (given.flags & HAS_TIMES) given.accessed = take_word(), given.modified = take_word();
  return given;
}

static struct handle *take_handle(void) {
  size_t length, start = at;
  take_bytes(&length);
  if (length != 4) return NULL;
  at = start + 4;
  uint32_t index = take_word();
  return index < HANDLES_MAX && handles[index].used ? &handles[index] : NULL;
}

static void put_number(uint64_t number, size_t bytes) {
  while (bytes--) answer[answer_length++] = (unsigned char)(number >> 8 * bytes);
}
static void put_word(uint32_t word) { put_number(word, 4); }
static void put_bytes(const void *bytes, size_t length) {
  put_word((uint32_t)length);
  memcpy(answer + answer_length, bytes, length);
  answer_length += length;
}
static void put_text(const char *text) { put_bytes(text, strlen(text)); }

static void begin(enum packet_type type) {
  answer_length = 4;
  put_number(type, 1);
  put_word(request);
}
static int finish(void) {
  size_t length = answer_length;
  answer_length = 0;
  put_word((uint32_t)(length - 4));
  return write_full(1, (const char *)answer, length);
}

static int say_status(enum status status, const char *text) {
  begin(STATUS);
  put_word(status);
  put_text(text);
  put_text("en");
  return finish();
}
static int say_error(void) {
  int reason = errno;
  enum status status = reason == ENOENT ? NO_SUCH_FILE : reason == EACCES || reason == EPERM ? PERMISSION_DENIED : FAILURE;
  return say_status(status, strerror(reason));
}
static int say_result(int result) { return result < 0 ? say_error() : say_status(OK, "Success"); }

static void put_attributes(const struct stat *file) {
  put_word(HAS_SIZE | HAS_OWNER | HAS_MODE | HAS_TIMES);
  put_number((uint64_t)file->st_size, 8);
  put_word(file->st_uid);
  put_word(file->st_gid);
  put_word(file->st_mode);
  put_word((uint32_t)file->st_atime);
  put_word((uint32_t)file->st_mtime);
}
static int say_stat(int result, const struct stat *file) {
  if (result < 0) return say_error();
  begin(ATTRS);
  put_attributes(file);
  return finish();
}

/* One line as `ls -l` writes it, which clients show to people. */
static void put_line(const char *name, const struct stat *file) {
  static const char kinds[] = "?pc?d?b?-?l?s???", bits[] = "rwxrwxrwx";
  char mode[11] = "", date[32], line[NAME_BYTES + 128];
  mode[0] = kinds[(file->st_mode >> 12) & 15];
  for (int i = 0; i < 9; i++) mode[i + 1] = file->st_mode & (0400 >> i) ? bits[i] : '-';
  struct tm time_of;
  gmtime_r(&file->st_mtime, &time_of);
  strftime(date, sizeof date, "%b %e %Y", &time_of);
  snprintf(line, sizeof line, "%s %4u %-8u %-8u %10llu %s %s", mode, (unsigned)file->st_nlink, file->st_uid, file->st_gid,
           (unsigned long long)file->st_size, date, name);
  put_text(line);
}

static int say_one_name(const char *name) {
  static const struct stat nothing;
  begin(NAME);
  put_word(1);
  put_text(name);
  put_line(name, &nothing);
  put_word(0); /* no attributes */
  return finish();
}

static int say_handle(int fd, DIR *dir, const char *path) {
  if (fd < 0 && !dir) return say_error();
  for (uint32_t i = 0; i < HANDLES_MAX; i++) {
    if (handles[i].used) continue;
    handles[i].used = 1, handles[i].fd = fd, handles[i].dir = dir;
    snprintf(handles[i].path, NAME_BYTES, "%s", path);
    begin(HANDLE);
    put_word(4);
    put_word(i);
    return finish();
  }
  if (dir) closedir(dir);
  else close(fd);
  return say_status(FAILURE, "too many open files");
}

static int do_open(void) {
  char path[NAME_BYTES];
  take_path(path);
  uint32_t wanted = take_word();
  struct attributes given = take_attributes();
  if (damaged) return say_status(BAD_MESSAGE, "bad message");
  int flags = wanted & FOR_WRITE ? wanted & FOR_READ ? O_RDWR : O_WRONLY : O_RDONLY;
  if (wanted & APPENDING) flags |= O_APPEND;
  if (wanted & CREATING) flags |= O_CREAT;
  if (wanted & TRUNCATING) flags |= O_TRUNC;
  if (wanted & EXCLUSIVE) flags |= O_EXCL;
  /* A FIFO would wait for its other end. */
  int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, given.flags & HAS_MODE ? given.mode & 07777 : 0666);
  return say_handle(fd, NULL, path);
}

static int do_read(struct handle *file) {
  static char *data;
  if (!data && !(data = malloc(DATA_MAX))) return say_status(FAILURE, "out of memory");
  uint64_t offset = take_number(8);
  uint32_t length = take_word();
  if (damaged || !file || file->dir) return say_status(BAD_MESSAGE, "bad message");
  ssize_t got = pread(file->fd, data, length < DATA_MAX ? length : DATA_MAX, (off_t)offset);
  if (got == 0) return say_status(END_OF_FILE, "End of file");
  if (got < 0) return say_error();
  begin(DATA);
  put_bytes(data, (size_t)got);
  return finish();
}

static int do_write(struct handle *file) {
  size_t length;
  uint64_t offset = take_number(8);
  const unsigned char *data = take_bytes(&length);
  if (damaged || !file || file->dir) return say_status(BAD_MESSAGE, "bad message");
  for (size_t done = 0; done < length;) {
    ssize_t put = pwrite(file->fd, data + done, length - done, (off_t)(offset + done));
    if (put < 0) return say_error();
    done += (size_t)put;
  }
  return say_status(OK, "Success");
}

static int do_readdir(struct handle *handle) {
  if (damaged || !handle || !handle->dir) return say_status(BAD_MESSAGE, "bad message");
  uint32_t count = 0;
  begin(NAME);
  size_t count_at = answer_length;
  put_word(0);
  for (struct dirent *entry; count < NAMES_MAX && answer_length < PACKET_MAX - 4 * NAME_BYTES && (entry = readdir(handle->dir));) {
    struct stat file;
    if (fstatat(dirfd(handle->dir), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) < 0) continue;
    put_text(entry->d_name);
    put_line(entry->d_name, &file);
    put_attributes(&file);
    count++;
  }
  if (count == 0) return say_status(END_OF_FILE, "End of file");
  size_t end = answer_length;
  answer_length = count_at;
  put_word(count);
  answer_length = end;
  return finish();
}

static int do_close(struct handle *handle) {
  if (!handle) return say_status(BAD_MESSAGE, "bad message");
  handle->used = 0;
  return say_result(handle->dir ? closedir(handle->dir) : close(handle->fd));
}

/* fd: of the open file, or -1 to use the path. */
static int do_setstat(int fd, const char *path) {
  struct attributes given = take_attributes();
  if (damaged) return say_status(BAD_MESSAGE, "bad message");
  int result = 0;
  if (given.flags & HAS_SIZE) result = fd < 0 ? truncate(path, (off_t)given.size) : ftruncate(fd, (off_t)given.size);
  if (result == 0 && given.flags & HAS_OWNER) result = fd < 0 ? chown(path, given.uid, given.gid) : fchown(fd, given.uid, given.gid);
  if (result == 0 && given.flags & HAS_MODE) result = fd < 0 ? chmod(path, given.mode & 07777) : fchmod(fd, given.mode & 07777);
  if (result == 0 && given.flags & HAS_TIMES) {
    struct timespec times[2] = {{.tv_sec = given.accessed}, {.tv_sec = given.modified}};
    result = fd < 0 ? utimensat(AT_FDCWD, path, times, 0) : futimens(fd, times);
  }
  return say_result(result);
}

static int do_realpath(const char *path) {
  char resolved[NAME_BYTES], joined[2 * NAME_BYTES];
  if (realpath(path, resolved)) return say_one_name(resolved);
  if (errno != ENOENT) return say_error();
  /* The last part may not exist yet. */
  const char *slash = strrchr(path, '/');
  char parent[NAME_BYTES];
  snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1, slash ? path : ".");
  if (!realpath(parent, resolved)) return say_error();
  snprintf(joined, sizeof joined, "%s/%s", strcmp(resolved, "/") ? resolved : "", slash ? slash + 1 : path);
  return say_one_name(joined);
}

/* Version 3 does not replace an existing file. */
static int do_rename(const char *from, const char *to) {
  struct stat file;
  if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 1 /* RENAME_NOREPLACE */) == 0) return say_result(0);
  if (errno != EINVAL && errno != ENOSYS) return say_error();
  if (lstat(to, &file) == 0) return errno = EEXIST, say_error();
  return say_result(rename(from, to));
}

static int do_statvfs(const char *path) {
  struct statvfs space;
  if (statvfs(path, &space) < 0) return say_error();
  begin(EXTENDED_REPLY);
  const uint64_t fields[] = {space.f_bsize, space.f_frsize, space.f_blocks, space.f_bfree, space.f_bavail, space.f_files,
                             space.f_ffree, space.f_favail, space.f_fsid,   space.f_flag,  space.f_namemax};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) put_number(fields[i], 8);
  return finish();
}

static int do_extended(void) {
  char name[NAME_BYTES], path[NAME_BYTES], to[NAME_BYTES];
  take_path(name);
  if (!strcmp(name, "posix-rename@openssh.com") || !strcmp(name, "hardlink@openssh.com")) {
    take_path(path), take_path(to);
    if (damaged) return say_status(BAD_MESSAGE, "bad message");
    return say_result(*name == 'p' ? rename(path, to) : link(path, to));
  }
  if (!strcmp(name, "statvfs@openssh.com")) {
    take_path(path);
    return damaged ? say_status(BAD_MESSAGE, "bad message") : do_statvfs(path);
  }
  if (!strcmp(name, "fsync@openssh.com")) {
    struct handle *file = take_handle();
    return file && !file->dir ? say_result(fsync(file->fd)) : say_status(BAD_MESSAGE, "bad message");
  }
  if (!strcmp(name, "limits@openssh.com")) {
    begin(EXTENDED_REPLY);
    put_number(PACKET_MAX, 8), put_number(DATA_MAX, 8), put_number(DATA_MAX, 8), put_number(HANDLES_MAX, 8);
    return finish();
  }
  return say_status(UNSUPPORTED, "not supported");
}

static int say_version(void) {
  static const char *const extensions[][2] = {{"posix-rename@openssh.com", "1"}, {"statvfs@openssh.com", "2"},
                                              {"hardlink@openssh.com", "1"},     {"fsync@openssh.com", "1"},
                                              {"limits@openssh.com", "1"}};
  answer_length = 4;
  put_number(VERSION, 1);
  put_word(3);
  for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++) put_text(extensions[i][0]), put_text(extensions[i][1]);
  return finish();
}

static int serve_path(enum packet_type type) {
  char path[NAME_BYTES], other[NAME_BYTES];
  struct stat file;
  take_path(path);
  if (type == RENAME || type == SYMLINK) take_path(other);
  if (damaged) return say_status(BAD_MESSAGE, "bad message");
  switch (type) {
    case LSTAT: return say_stat(lstat(path, &file), &file);
    case STAT: return say_stat(stat(path, &file), &file);
    case SETSTAT: return do_setstat(-1, path);
    case OPENDIR: return say_handle(-1, opendir(path), path);
    case REMOVE: return say_result(unlink(path));
    case RMDIR: return say_result(rmdir(path));
    case REALPATH: return do_realpath(path);
    case RENAME: return do_rename(path, other);
    case SYMLINK: return say_result(symlink(path, other)); /* OpenSSH sends the target first */
    case MKDIR: {
      struct attributes given = take_attributes();
      return say_result(mkdir(path, given.flags & HAS_MODE ? given.mode & 07777 : 0777));
    }
    default: {
      ssize_t length = readlink(path, other, sizeof other - 1);
      if (length < 0) return say_error();
      other[length] = 0;
      return say_one_name(other);
    }
  }
}

static int serve(void) {
  struct stat file;
  enum packet_type type = (enum packet_type)take_number(1);
  if (type == INIT) return say_version();
  request = take_word();
  if (type == OPEN) return do_open();
  if (type == EXTENDED) return do_extended();
  if (type == LSTAT || type == STAT || type == SETSTAT || type == OPENDIR || (type >= REMOVE && type <= SYMLINK))
    return serve_path(type);
  struct handle *handle = take_handle();
  switch (type) {
    case CLOSE: return do_close(handle);
    case READ: return do_read(handle);
    case WRITE: return do_write(handle);
    case READDIR: return do_readdir(handle);
    case FSTAT:
      if (!handle) return say_status(BAD_MESSAGE, "bad message");
      return say_stat(fstat(handle->dir ? dirfd(handle->dir) : handle->fd, &file), &file);
    case FSETSTAT:
      if (!handle) return say_status(BAD_MESSAGE, "bad message");
      return do_setstat(handle->dir ? dirfd(handle->dir) : handle->fd, handle->path);
    default: return say_status(UNSUPPORTED, "not supported");
  }
}

/* Answers requests until the input ends. Returns -1 for a packet that is too long or incomplete. */
int sftp_serve(void) {
  packet = malloc(PACKET_MAX), answer = malloc(PACKET_MAX + 64), handles = calloc(HANDLES_MAX, sizeof *handles);
  if (!packet || !answer || !handles) return dprintf(2, "out of memory\n"), -1;
  for (;;) {
    unsigned char length[4];
    ssize_t got = read_full(0, (char *)length, sizeof length);
    if (got == 0) return 0;
    packet_length = (size_t)length[0] << 24 | (size_t)length[1] << 16 | (size_t)length[2] << 8 | length[3];
    if (got != sizeof length || packet_length == 0 || packet_length > PACKET_MAX) break;
    if (read_full(0, (char *)packet, packet_length) != (ssize_t)packet_length) break;
    at = 0, damaged = 0;
    if (serve() < 0) return -1;
  }
  dprintf(2, "a packet is incomplete or too long\n");
  return -1;
}
