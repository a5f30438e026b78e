/* Resuming from a snapshot: sets the time, adds fresh randomness, and gives a clone its own name and address. */
#include "mote.h"
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* From linux/random.h, which musl's headers lack. */
enum { ADD_ENTROPY = 0x40085203, RESEED = 0x5207 };

static void set_clock(const char *microseconds) {
  if (sandbox_config()) return;
  long long us = atoll(microseconds);
  struct timespec now = {us / 1000000, us % 1000000 * 1000};
  clock_settime(CLOCK_REALTIME, &now);
}

/* Hexadecimal. Credits the entropy, then reseeds the generator, so that two clones do not draw the same numbers. */
static int reseed(const char *hex) {
  struct {
    int bits, size;
    unsigned char data[64];
  } pool = {0, 0, {0}};
  for (; pool.size < 64 && sscanf(hex + 2 * pool.size, "%2hhx", pool.data + pool.size) == 1; pool.size++);
  /* gVisor draws from the host's generator, so that clones differ, and its clock is the host's. */
  if (sandbox_config()) return 1;
  pool.bits = 8 * pool.size;
  int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
  int done = fd >= 0 && ioctl(fd, ADD_ENTROPY, &pool) == 0 && ioctl(fd, RESEED) == 0;
  if (fd >= 0) close(fd);
  return done;
}

/*
 * The device stays up, because taking it down and up costs an emulated guest 20 ms more. Disabling and enabling IPv6
 * renews its addresses for the new MAC; the new IPv4 address replaces the old one, which removes its routes.
 */
static void set_mac(const char *text) {
  static const char without_ipv6[] = "/proc/sys/net/ipv6/conf/eth0/disable_ipv6";
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq eth = {.ifr_name = "eth0"};
  put_file(without_ipv6, "1");
  eth.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  unsigned char *mac = (unsigned char *)eth.ifr_hwaddr.sa_data;
  if (sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1, mac + 2, mac + 3, mac + 4, mac + 5) == 6)
    ioctl(fd, SIOCSIFHWADDR, &eth);
  put_file(without_ipv6, "0");
  close(fd);
}

/* `key=value` words, as on the config disk, plus `seed`, `now_us`, `mac`. */
struct renewed {
  int seeded, mac;
};

static struct renewed take_words(struct config *config, const char *text) {
  char *rest = NULL, *words = strdup(text); /* the configuration keeps pointers into it */
  struct renewed renewed = {0, 0};
  for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    char *value = strchr(word, '=');
    if (!value) continue;
    *value++ = 0;
    decode(value);
    if (!strcmp(word, "seed")) renewed.seeded = reseed(value);
    else if (!strcmp(word, "now_us")) set_clock(value);
    /* A restored sandbox gets its network from the host. */
    else if (!strcmp(word, "mac") && sandbox_config()) continue;
    else if (!strcmp(word, "mac")) set_mac(value), renewed.mac = 1;
    else config_take(config, word, value);
  }
  return renewed;
}

/* Without `mac`, the network is unchanged. */
void identity_renew(struct config *config, const char *id, char *text) {
  struct renewed renewed = take_words(config, text);
  if (renewed.mac) configure_network(config);
  write_identity(config);
  control_say(renewed.seeded ? "%s ok\n" : "%s err no entropy\n", id);
}

/*
 * Turns a template into a VM. Randomness comes first, so that everything that uses it afterwards (temporary addresses,
 * network secrets, the workload) differs from other VMs of the template.
 */
int identity_begin(struct config *config, char *text) {
  if (!take_words(config, text).seeded) return -1;
  read_config(config);
  configure_network(config);
  write_identity(config);
  return 0;
}
