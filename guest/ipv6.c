/* The private network: one address, one route. Skipped on a kernel without IPv6. */
#include "mote.h"
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/route.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* struct in6_ifreq of linux/ipv6.h, which musl's headers lack. */
struct address6 {
  struct in6_addr address;
  uint32_t prefix;
  int device;
};

/*
 * Runs before the device comes up. The host is the only neighbor and assigns every address, so duplicate address
 * detection (which takes a second) and router advertisements are disabled.
 */
void ipv6_prepare(void) {
  put_file("/proc/sys/net/ipv6/conf/eth0/accept_dad", "0");
  put_file("/proc/sys/net/ipv6/conf/eth0/accept_ra", "0");
}

static int add_address(int fd, const char *text, int device) {
  struct address6 address = {.prefix = 128, .device = device};
  if (inet_pton(AF_INET6, text, &address.address) != 1) return -1;
  return ioctl(fd, SIOCSIFADDR, &address) < 0 && errno != EEXIST ? -1 : 0;
}

static int add_route(int fd, const char *network, const char *gateway, int device) {
  char text[64];
  struct in6_rtmsg route = {.rtmsg_flags = RTF_UP | RTF_GATEWAY, .rtmsg_metric = 1, .rtmsg_ifindex = device};
  snprintf(text, sizeof text, "%s", network);
  char *length = strchr(text, '/');
  if (!length) return -1;
  *length++ = 0;
  route.rtmsg_dst_len = (uint16_t)atoi(length);
  if (inet_pton(AF_INET6, text, &route.rtmsg_dst) != 1 || inet_pton(AF_INET6, gateway, &route.rtmsg_gateway) != 1) return -1;
  return ioctl(fd, SIOCADDRT, &route) < 0 && errno != EEXIST ? -1 : 0;
}

void ipv6_configure(const struct config *config) {
  if (!config->ip6 || !config->gateway6 || !config->route6) return;
  int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  struct ifreq eth = {.ifr_name = "eth0"};
  if (ioctl(fd, SIOCGIFINDEX, &eth) < 0 || add_address(fd, config->ip6, eth.ifr_ifindex) < 0 ||
      add_route(fd, config->route6, config->gateway6, eth.ifr_ifindex) < 0)
    dprintf(2, "mote-init: private network: %s\n", strerror(errno));
  close(fd);
}
