/** What one disk of a VM may take of its host's. */
import { type Static, Type } from 'typebox'

export const DiskLimits = Type.Object({
  /** Read and written. */
  mibPerSecond: Type.Integer({ minimum: 1 }),
  /** Reads and writes a second. */
  operations: Type.Integer({ minimum: 1 }),
})
export type DiskLimits = Readonly<Static<typeof DiskLimits>>

export const defaultDiskLimits: DiskLimits = { mibPerSecond: 400, operations: 20_000 }

/** For a second a disk may be as many times as fast: a program that starts reads much at once. */
const burst = 4

/** Of QEMU's leaky buckets, by the names that its command line and QMP have in common but for their form. */
export function qemuThrottle({ mibPerSecond, operations }: DiskLimits) {
  const bytes = mibPerSecond * 2 ** 20
  return { bps: bytes, bpsMax: burst * bytes, iops: operations, iopsMax: burst * operations } as const
}
