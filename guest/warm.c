/* What an image says will be read at once is in memory when its template is taken: no VM of it reads it from the disk. */
#include "mote.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIST "/usr/share/mote/warm"
/* A list may name anything; a template that nobody can afford helps nobody. */
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

/* One path a line. What cannot be read is left out: it only makes a start slower. */
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
