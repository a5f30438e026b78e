/* Preloads files that an image lists into memory before its template is taken, so that no VM reads them from the disk. */
#include "mote.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIST "/usr/share/mote/warm"
/* The list is not trusted: this limits the size of the template. */
enum { WARM_MAX = 96 << 20 };

static size_t read_through(const char *path, size_t room) {
  static char buffer[1 << 17];
  size_t used = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return 0;
  for (ssize_t n; used < room && (n = read(fd, buffer, sizeof buffer)) > 0;) used += (size_t)n;
  close(fd);
  return used;
}

/* One path per line. Unreadable files are skipped, which only makes a start slower. */
void warm_up(void) {
  char path[4096];
  size_t used = 0;
  FILE *list = fopen(LIST, "re");
  while (list && used < WARM_MAX && fgets(path, sizeof path, list)) {
    path[strcspn(path, "\n")] = 0;
    used += read_through(path, WARM_MAX - used);
  }
  if (list) fclose(list);
}
