/** Which IPv4 network each host of the mesh has for its guests. Pure. */
import { firstGuests } from '../../contract/network.ts'
import { type Cidr, contains, formatCidr, parseCidr } from '../../lib/cidr.ts'

export const sliceBits = 20

const sizeOf = ({ prefix }: Cidr) => 1n << BigInt(32 - prefix)

/**
 * The first /20 of `network` that has nothing in common with `taken`, nor with what agents begin with, since one that is not
 * in the mesh may use that on a machine that is. Undefined: all are taken.
 */
export function freeSlice(network: string, taken: readonly string[]): string | undefined {
  const whole = parseCidr(network)
  if (whole?.family !== 4 || whole.prefix > sliceBits) throw new Error(`BUG: ${network} has no /${sliceBits} in it`)
  const others = [firstGuests, ...taken]
    .flatMap(text => parseCidr(text) ?? [])
    .filter(other => contains(whole, other) || contains(other, whole))
    .sort((a, b) => Number(a.value - b.value))
  const slice = { family: 4, value: whole.value, prefix: sliceBits } as const
  const step = sizeOf(slice)
  let { value } = slice
  for (const other of others) {
    if (other.value >= value + step) break
    const end = other.value + sizeOf(other)
    // Up to the next /20: an operator may have chosen a smaller network.
    if (end > value) value = ((end + step - 1n) / step) * step
  }
  return value < whole.value + sizeOf(whole) ? formatCidr({ ...slice, value }) : undefined
}
