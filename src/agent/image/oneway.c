/*
 * oneway <socket> <port> <program> [argument]...
 *
 * Runs a program in a network namespace that contains only a loopback device. Connections to the port on its 127.0.0.1
 * are forwarded to the unix socket, on which a server outside listens: the program's only way out. Without root, the
 * program also gets a user namespace of its own, in which it has the user id of its caller.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what) {
  perror(what);
  return 127;
}

static int put(const char *file, const char *text) {
  int fd = open(file, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  int result = write(fd, text, strlen(text)) < 0 ? -1 : 0;
  close(fd);
  return result;
}

/* An unprivileged process may map its own ids in a user namespace once setgroups is denied (user_namespaces(7)). */
static int leave_network(void) {
  unsigned uid = geteuid(), gid = getegid();
  char users[32], groups[32];
  if (uid == 0) return unshare(CLONE_NEWNET);
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) return -1;
  snprintf(users, sizeof users, "%u %u 1", uid, uid);
  snprintf(groups, sizeof groups, "%u %u 1", gid, gid);
  if (put("/proc/self/uid_map", users) < 0 || put("/proc/self/setgroups", "deny") < 0) return -1;
  return put("/proc/self/gid_map", groups);
}

static int loopback_up(void) {
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int result = fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &request);
  close(fd);
  return result;
}

static int listen_at(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 64) < 0) return -1;
  return fd;
}

/* The program's connection and the one to the socket. The direction that ends last closes both. */
struct pair {
  int inside, outside;
  atomic_int busy;
};

struct way {
  struct pair *pair;
  int from, to;
};

/* Forwards one direction of a connection until its end. */
static void *carry(void *given) {
  struct way way = *(struct way *)given;
  char bytes[65536];
  free(given);
  for (ssize_t got; (got = read(way.from, bytes, sizeof bytes)) > 0;) {
    ssize_t done = 0;
    while (done < got) {
      ssize_t sent = write(way.to, bytes + done, got - done);
      if (sent < 0) break;
      done += sent;
    }
    if (done < got) break;
  }
  shutdown(way.to, SHUT_WR);
  shutdown(way.from, SHUT_RD);
  if (atomic_fetch_sub(&way.pair->busy, 1) == 1) {
    close(way.pair->inside);
    close(way.pair->outside);
    free(way.pair);
  }
  return NULL;
}

static void in_thread(void *(*run)(void *), void *given) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, given) != 0) exit(fail("thread"));
  pthread_detach(thread);
}

static struct way *way_of(struct pair *pair, int from, int to) {
  struct way *way = malloc(sizeof *way);
  if (!way) exit(fail("memory"));
  *way = (struct way){.pair = pair, .from = from, .to = to};
  return way;
}

static int listener;
static struct sockaddr_un outside = {.sun_family = AF_UNIX};

/* Accepts connections and starts two threads for each, so that neither direction waits for the other. */
static void *serve(void *unused) {
  for (int inside; (inside = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&outside, sizeof outside) < 0) {
      close(fd);
      close(inside);
      continue;
    }
    struct pair *pair = malloc(sizeof *pair);
    if (!pair) exit(fail("memory"));
    *pair = (struct pair){.inside = inside, .outside = fd, .busy = 2};
    in_thread(carry, way_of(pair, inside, fd));
    in_thread(carry, way_of(pair, fd, inside));
  }
  return unused;
}

int main(int argc, char **argv) {
  if (argc < 4 || strlen(argv[1]) >= sizeof outside.sun_path) {
    fputs("usage: oneway <socket> <port> <program> [argument]...\n", stderr);
    return 127;
  }
  strcpy(outside.sun_path, argv[1]);
  if (leave_network() < 0) return fail("a network namespace of its own");
  if (loopback_up() < 0) return fail("lo");
  listener = listen_at(atoi(argv[2]));
  if (listener < 0) return fail("listen");
  pid_t program = fork();
  if (program < 0) return fail("fork");
  if (program == 0) {
    /* If oneway is killed, the program must be killed, too. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp(argv[3], argv + 3);
    _exit(fail(argv[3]));
  }
  signal(SIGPIPE, SIG_IGN);
  in_thread(serve, NULL);
  int status;
  if (waitpid(program, &status, 0) < 0) return fail("wait");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
