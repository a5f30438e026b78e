/* The two ports over virtio-vsock, for VMs without virtio-serial: the guest listens, the host connects. */
#include "mote.h"
#include <sys/socket.h>
#include <unistd.h>

/* From linux/vm_sockets.h, which musl's headers lack. */
enum { FAMILY = 40, HOST_CID = 2 };
struct vsock_address {
  sa_family_t family;
  unsigned short reserved;
  unsigned int port, cid;
  unsigned char flags, zero[3];
};

int vsock_listen(unsigned port) {
  struct vsock_address address = {.family = FAMILY, .port = port, .cid = 0xffffffffu};
  int fd = socket(FAMILY, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4) < 0) fatal("vsock");
  return fd;
}

/* Returns the next connection from the host, or -1. Connections from programs in the guest are rejected. */
int vsock_accept(int listener) {
  for (;;) {
    struct vsock_address peer = {0};
    socklen_t length = sizeof peer;
    int fd = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || peer.cid == HOST_CID) return fd;
    close(fd);
  }
}
