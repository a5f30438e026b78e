interface Offer {
  readonly name: string
  readonly available: boolean
  readonly emulated?: boolean | undefined
}

/** Says what keeps an app apart from the host, and how to get native speed where the processor is emulated. */
export function isolationText({ name, emulated }: Omit<Offer, 'available'>): string {
  if (name === 'gvisor') return 'gVisor, a kernel in user space, at native speed'
  if (emulated !== true) return `a virtual machine (${name})`
  return 'a virtual machine on an emulated processor, because this host has no KVM; for native speed, run: mote runsc install'
}

/** What apps of this host get unless they ask for something else: the order of src/control/scheduler/place.ts. */
export function preferred<T extends Offer>(offers: readonly T[]): T | undefined {
  const rank = ({ name, emulated }: T) => (emulated === true ? 2 : name === 'gvisor' ? 1 : 0)
  return offers.filter(offer => offer.available).toSorted((a, b) => rank(a) - rank(b))[0]
}
