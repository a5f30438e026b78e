/* Sends and receives bytes in a guest with as little work as possible. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char bytes[1 << 17];

static long long pass(int from, int to) {
  long long total = 0;
  for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0; total += n)
    for (ssize_t at = 0, put; to >= 0 && at < n; at += put)
      if ((put = write(to, bytes + at, (size_t)(n - at))) <= 0) return -1;
  return total;
}

static void give(const char *file, int times, int to) {
  for (int i = 0; i < times; i++) {
    int fd = open(file, O_RDONLY);
    if (fd < 0) exit(1);
    pass(fd, to);
    close(fd);
  }
}

/* Serves one connection after another. The client's first byte is how often to send the file; 0: receive, 255: echo. */
static void serve(int port, const char *file) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 8) < 0) exit(1);
  for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd)) {
    unsigned char times = 0;
    if (read(fd, &times, 1) != 1) continue;
    if (times == 255) pass(fd, fd);
    else if (times) give(file, times, fd);
    else {
      char text[32];
      int length = snprintf(text, sizeof text, "%lld", pass(fd, -1));
      if (write(fd, text, (size_t)length) < 0) continue;
    }
  }
}

/* Usage: `make <file> <MiB>`, `give <file> <times>`, `take`, `serve <port> <file>` */
int main(int argc, char **argv) {
  if (argc == 4 && !strcmp(argv[1], "make")) {
    int fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    unsigned state = 1;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)((state = state * 1103515245 + 12345) >> 16);
    for (int i = 0; i < atoi(argv[3]) * 8; i++)
      if (write(fd, bytes, sizeof bytes) != sizeof bytes) return 1;
  } else if (argc == 4 && !strcmp(argv[1], "give")) give(argv[2], atoi(argv[3]), 1);
  else if (argc == 2 && !strcmp(argv[1], "take")) printf("%lld", pass(0, -1));
  else if (argc == 4 && !strcmp(argv[1], "serve")) serve(atoi(argv[2]), argv[3]);
  else return 2;
  return 0;
}
