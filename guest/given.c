/* Files that the host gives to the workload: written once, before its first start, over what the image and volumes have. */
#include "mote.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* `<octal mode> <base64> <path>`. The path may be a link of the image: its target is written, as behind a bind mount. */
static int write_given(const struct config *config, char *text) {
  char *data = strchr(text, ' '), *path = data ? strchr(data + 1, ' ') : NULL;
  if (!path) return errno = EINVAL, -1;
  *path++ = 0;
  mode_t mode = (mode_t)strtol(text, NULL, 8) & 0777;
  ssize_t size = base64_decode(++data);
  struct stat found;
  make_parents(path);
  /* A pipe without a reader must not hold up the start. */
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
  if (size < 0) errno = EINVAL;
  int result = size < 0 || fd < 0 || fstat(fd, &found) < 0 ? -1 : 0;
  if (result == 0 && !S_ISREG(found.st_mode)) errno = EINVAL, result = -1;
  if (result == 0 && write_full(fd, data, (size_t)size) < 0) result = -1;
  if (result == 0 && (fchown(fd, config->uid, config->gid) < 0 || fchmod(fd, mode) < 0)) result = -1;
  int reason = errno;
  if (fd >= 0 && close(fd) < 0 && result == 0) reason = errno, result = -1;
  memmove(text, path, strlen(path) + 1);
  errno = reason;
  return result;
}

/* Returns the path that could not be written, or NULL. */
const char *write_given_files(struct config *config) {
  for (int i = 0; i < config->filec; i++)
    if (write_given(config, config->files[i]) < 0) return config->files[i];
  config->filec = 0;
  return NULL;
}
