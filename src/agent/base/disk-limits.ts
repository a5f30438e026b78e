/** Limits on one disk of a VM. */
import { type Static, Type } from 'typebox'

export const DiskLimits = Type.Object({
  /** Maximum throughput of reads and writes together. */
  mibPerSecond: Type.Integer({ minimum: 1 }),
  /** Maximum number of reads and writes per second, counted together. */
  operations: Type.Integer({ minimum: 1 }),
})
export type DiskLimits = Readonly<Static<typeof DiskLimits>>

export const defaultDiskLimits: DiskLimits = { mibPerSecond: 400, operations: 20_000 }

/** For one second a disk may exceed its limits by this factor: a starting program reads a lot. */
const burst = 4

/** Returns parameters of QEMU's leaky buckets. The names of options and QMP fields are derived from these keys. */
export function qemuThrottle({ mibPerSecond, operations }: DiskLimits) {
  const bytes = mibPerSecond * 2 ** 20
  return { bps: bytes, bpsMax: burst * bytes, iops: operations, iopsMax: burst * operations } as const
}
