interface Offer {
  readonly name: string
  readonly available: boolean
  readonly emulated?: boolean | undefined
}

/** Describes what isolates an app from the host and, if the processor is emulated, how to get native speed. */
export function isolationText({ name, emulated }: Omit<Offer, 'available'>): string {
  if (name === 'gvisor') return 'gVisor, a kernel in user space, at native speed'
  if (emulated !== true) return `a virtual machine (${name})`
  return 'a virtual machine on an emulated processor, because this host has no KVM; for native speed, run: mote runsc install'
}

/**
 * Returns the hypervisor that apps on this host get by default. The order is that of src/control/scheduler/place.ts.
 */
export function preferred<T extends Offer>(offers: readonly T[]): T | undefined {
  const rank = ({ name, emulated }: T) => (emulated === true ? 2 : name === 'gvisor' ? 1 : 0)
  return offers.filter(offer => offer.available).toSorted((a, b) => rank(a) - rank(b))[0]
}
