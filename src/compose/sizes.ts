/** Sizes of VMs. */

const memorySizes = [512, 1024, 2048, 4096] as const

/** The smallest memory that is enough; undefined if none is. */
export const memoryFor = (wantedMib: number): (typeof memorySizes)[number] | undefined =>
  memorySizes.find(one => one >= wantedMib)
