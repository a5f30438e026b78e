/** Kernel arguments of every guest: they disable console output, delays and self-tests, and reboot after a panic. */
export const commonKernelArgs = [
  'console=ttyS0 quiet loglevel=1 panic=-1',
  'rcupdate.rcu_expedited=1 init_on_alloc=0 mitigations=off random.trust_cpu=on 8250.nr_uarts=1',
  'audit=0 apparmor=0 cryptomgr.notests raid=noautodetect nokaslr',
].join(' ')
