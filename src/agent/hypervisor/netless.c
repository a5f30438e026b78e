/*
 * netless <tap> <fd> <program> [argument]...
 *
 * Starts a program in a new, empty network namespace, with the host's tap open as <fd>. The tap carries the program's
 * only traffic; the program itself cannot connect to anything.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

unsigned int if_nametoindex(const char *name);

static int fail(const char *what) {
  perror(what);
  return 127;
}

int main(int argc, char **argv) {
  if (argc < 4 || strlen(argv[1]) >= IFNAMSIZ) {
    fputs("usage: netless <tap> <fd> <program> [argument]...\n", stderr);
    return 127;
  }
  struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
  strcpy(request.ifr_name, argv[1]);
  int wanted = atoi(argv[2]);
  /* TUNSETIFF would create a missing tap, which no firewall rule would filter. */
  if (if_nametoindex(argv[1]) == 0) return fail(argv[1]);
  int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
  if (tap < 0) return fail("/dev/net/tun");
  if (ioctl(tap, TUNSETIFF, &request) < 0) return fail(argv[1]);
  if (tap != wanted && (dup2(tap, wanted) < 0 || close(tap) < 0)) return fail("dup2");
  if (unshare(CLONE_NEWNET) < 0) return fail("unshare");
  execvp(argv[3], argv + 3);
  return fail(argv[3]);
}
