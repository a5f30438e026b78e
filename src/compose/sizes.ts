/** Memory sizes of VMs. */

const memorySizes = [512, 1024, 2048, 4096] as const

/** Returns the smallest memory size of a VM that suffices; undefined if none does. */
export const memoryFor = (wantedMib: number): (typeof memorySizes)[number] | undefined =>
  memorySizes.find(one => one >= wantedMib)
