/* Trees of files as a tar archive: POSIX ustar, with the long names of GNU tar and, when reading, of pax (POSIX.1-2001). */
#include "mote.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 512, NAME_BYTES = 4096 };

struct header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[8], owner[32], group[32],
    major[8], minor[8], prefix[155], rest[12];
};

static unsigned checksum(const struct header *header) {
  const unsigned char *bytes = (const unsigned char *)header;
  unsigned sum = 0;
  for (size_t i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? ' ' : bytes[i];
  return sum;
}

static int put_header(const char *name, char type, const struct stat *stat_of, uint64_t size, const char *link) {
  struct header header;
  memset(&header, 0, sizeof header);
  memcpy(header.name, name, strnlen(name, sizeof header.name));
  memcpy(header.link, link, strnlen(link, sizeof header.link));
  snprintf(header.mode, sizeof header.mode, "%07o", stat_of ? stat_of->st_mode & 07777 : 0644);
  snprintf(header.uid, sizeof header.uid, "%07o", stat_of ? stat_of->st_uid & 07777777 : 0);
  snprintf(header.gid, sizeof header.gid, "%07o", stat_of ? stat_of->st_gid & 07777777 : 0);
  snprintf(header.mtime, sizeof header.mtime, "%011llo", stat_of ? (unsigned long long)stat_of->st_mtime & 077777777777 : 0);
  if (size >> 33) { /* does not fit in 11 octal digits */
    header.size[0] = (char)0x80;
    for (int i = 11; i >= 4; i--, size >>= 8) header.size[i] = (char)(size & 0xff);
  } else snprintf(header.size, sizeof header.size, "%011llo", (unsigned long long)size);
  header.type = type;
  memcpy(header.magic, "ustar\00000", 8);
  snprintf(header.sum, sizeof header.sum, "%06o", checksum(&header));
  return write_full(1, (const char *)&header, sizeof header);
}

static int put_padding(uint64_t size) {
  static const char zeros[BLOCK];
  return size % BLOCK ? write_full(1, zeros, BLOCK - size % BLOCK) : 0;
}

static int put_long(char type, const char *text) {
  size_t length = strlen(text) + 1;
  if (put_header("././@LongLink", type, NULL, length, "") < 0 || write_full(1, text, length) < 0) return -1;
  return put_padding(length);
}

/* A file that shrinks meanwhile is filled with zeros: its size was announced. */
static int put_content(const char *path, uint64_t size) {
  static char bytes[1 << 16];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) file_fault(path);
  for (uint64_t left = size; left > 0;) {
    size_t want = left < sizeof bytes ? (size_t)left : sizeof bytes;
    ssize_t got = fd < 0 ? 0 : read_full(fd, bytes, want);
    if (got < 0) got = 0;
    memset(bytes + got, 0, want - (size_t)got);
    if (write_full(1, bytes, want) < 0) return -1;
    left -= want;
  }
  if (fd >= 0) close(fd);
  return put_padding(size);
}

static size_t base; /* bytes of a path that precede the name in the archive */

static int pack_one(const char *path, const struct stat *stat_of) {
  char name[NAME_BYTES + 2], target[NAME_BYTES] = "";
  int is_dir = S_ISDIR(stat_of->st_mode), is_file = S_ISREG(stat_of->st_mode), is_link = S_ISLNK(stat_of->st_mode);
  if (!is_dir && !is_file && !is_link) return 0;
  snprintf(name, sizeof name, "%s%s", path + base, is_dir ? "/" : "");
  if (is_link && readlink(path, target, sizeof target - 1) < 0) return -1;
  if (strlen(name) > 100 && put_long('L', name) < 0) return -1;
  if (strlen(target) > 100 && put_long('K', target) < 0) return -1;
  uint64_t size = is_file ? (uint64_t)stat_of->st_size : 0;
  if (put_header(name, is_dir ? '5' : is_link ? '2' : '0', stat_of, size, target) < 0) return -1;
  return is_file ? put_content(path, size) : 0;
}

/* Writes the file or the tree, under its last name. Sockets, pipes and devices are left out. */
int tar_pack(char *path) {
  static const char end[2 * BLOCK];
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') path[--length] = 0;
  char *slash = strrchr(path, '/');
  base = slash ? (size_t)(slash - path) + 1 : 0;
  return walk_files(path, 1 << 20, pack_one, 0) < 0 || write_full(1, end, sizeof end) < 0 ? -1 : 0;
}

static uint64_t number(const char *text, size_t size) {
  uint64_t value = 0;
  if (text[0] & 0x80)
    for (size_t i = 4; i < size; i++) value = value << 8 | (unsigned char)text[i];
  else
    for (size_t i = 0; i < size && text[i]; i++)
      if (text[i] >= '0' && text[i] <= '7') value = value << 3 | (uint64_t)(text[i] - '0');
  return value;
}

/* The next entry: names and size that a header before it gives replace its own. */
struct entry {
  char name[NAME_BYTES], link[NAME_BYTES];
  uint64_t size;
  int has_name, has_link, has_size;
};

static int skip_padding(uint64_t size) {
  char rest[BLOCK];
  size_t padding = size % BLOCK ? BLOCK - size % BLOCK : 0;
  return read_full(0, rest, padding) == (ssize_t)padding ? 0 : -1;
}

/* Copies the content to fd, or skips it if fd is -1. */
static int take_content(int fd, uint64_t size) {
  static char bytes[1 << 16];
  for (uint64_t left = size; left > 0;) {
    size_t want = left < sizeof bytes ? (size_t)left : sizeof bytes;
    if (read_full(0, bytes, want) != (ssize_t)want) return errno = EIO, -1;
    if (fd >= 0 && write_full(fd, bytes, want) < 0) return -1;
    left -= want;
  }
  return skip_padding(size);
}

/* Returns -1 for a name that does not fit: a shortened one would be another file. */
static int take_name(char to[NAME_BYTES], const char *from) {
  size_t length = strlen(from);
  if (length >= NAME_BYTES) return errno = ENAMETOOLONG, -1;
  memcpy(to, from, length + 1);
  return 1;
}

static int take_pax(struct entry *entry, char *text, size_t size) {
  for (char *at = text; at < text + size;) {
    char *space = NULL;
    unsigned long length = strtoul(at, &space, 10);
    if (length < 5 || length > (size_t)(text + size - at) || *space != ' ') return errno = EILSEQ, -1;
    at[length - 1] = 0;
    char *key = space + 1;
    if (!strncmp(key, "path=", 5)) entry->has_name = take_name(entry->name, key + 5);
    else if (!strncmp(key, "linkpath=", 9)) entry->has_link = take_name(entry->link, key + 9);
    else if (!strncmp(key, "size=", 5)) entry->size = strtoull(key + 5, NULL, 10), entry->has_size = 1;
    if (entry->has_name < 0 || entry->has_link < 0) return -1;
    at += length;
  }
  return 0;
}

/* The content of a header that describes the next entry. */
static int take_text(struct entry *entry, char type, uint64_t size) {
  static char text[1 << 16];
  if (size >= sizeof text) return errno = ENAMETOOLONG, -1;
  if (read_full(0, text, (size_t)size) != (ssize_t)size || skip_padding(size) < 0) return errno = EIO, -1;
  text[size] = 0;
  if (type == 'x') return take_pax(entry, text, (size_t)size);
  if (type == 'L') return entry->has_name = take_name(entry->name, text);
  if (type == 'K') return entry->has_link = take_name(entry->link, text);
  return 0;
}

static int leaves(const char *name) {
  if (*name == '/') return 1;
  for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
    if (!strncmp(part, "..", 2) && (part[2] == '/' || !part[2])) return 1;
  return 0;
}

static int take_entry(const char *into, const struct entry *entry, const struct header *header) {
  char path[2 * NAME_BYTES], target[2 * NAME_BYTES];
  int mode = (int)number(header->mode, sizeof header->mode) & 07777;
  if (leaves(entry->name)) return errno = EPERM, file_fault(entry->name);
  snprintf(path, sizeof path, "%s/%s", into, entry->name);
  for (size_t length = strlen(path); length > 1 && path[length - 1] == '/';) path[--length] = 0;
  make_parents(path);
  if (header->type == '5') {
    if (mkdir(path, 0755) < 0 && errno != EEXIST) return file_fault(path);
    return chmod(path, (mode_t)mode) < 0 ? file_fault(path) : 0;
  }
  if (header->type == '2') {
    unlink(path);
    return symlink(entry->link, path) < 0 ? file_fault(path) : 0;
  }
  if (header->type == '1') {
    if (leaves(entry->link)) return errno = EPERM, file_fault(entry->link);
    snprintf(target, sizeof target, "%s/%s", into, entry->link);
    unlink(path);
    return link(target, path) < 0 ? file_fault(path) : 0;
  }
  if (header->type != '0' && header->type) return take_content(-1, entry->size);
  int fd = begin_file(path);
  if (fd < 0 || take_content(fd, entry->size) < 0 || finish_file(fd, path, mode) < 0) return file_fault(path);
  return 0;
}

/* Unpacks the archive on standard input into a directory, which it makes. Each file is replaced at once. */
int tar_unpack(char *into) {
  static struct entry entry;
  struct header header;
  make_path(into);
  for (;;) {
    ssize_t got = read_full(0, (char *)&header, sizeof header);
    if (got == 0) return 0;
    if (got != sizeof header) return errno = EIO, file_fault("archive");
    if (!header.name[0] && !header.magic[0]) continue;
    if (number(header.sum, sizeof header.sum) != checksum(&header)) return errno = EILSEQ, file_fault("archive");
    uint64_t size = number(header.size, sizeof header.size);
    if (strchr("xgLK", header.type) && header.type) {
      if (take_text(&entry, header.type, size) < 0) return file_fault("archive");
      continue;
    }
    int has_prefix = !memcmp(header.magic, "ustar\000", 6) && header.prefix[0];
    if (!entry.has_name)
      snprintf(entry.name, sizeof entry.name, "%.*s%s%.*s", has_prefix ? 155 : 0, header.prefix, has_prefix ? "/" : "", 100,
               header.name);
    if (!entry.has_link) snprintf(entry.link, sizeof entry.link, "%.*s", 100, header.link);
    if (!entry.has_size) entry.size = size;
    if (take_entry(into, &entry, &header) < 0) return -1;
    entry.has_name = entry.has_link = entry.has_size = 0;
  }
}
