/*
 * Enlarges the buffers of named pipes from 64 KiB to 1 MiB, which Node.js cannot do, so that writers wait less often.
 * The size lasts while a pipe is open somewhere. The arguments are paths; a pipe that cannot grow keeps its size.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    int fd = open(argv[i], O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) fcntl(fd, F_SETPIPE_SZ, BYTES), close(fd);
  }
  return 0;
}
