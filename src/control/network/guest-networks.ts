/** Chooses an IPv4 network for the guests of each host in the mesh. Pure. */
import { firstGuests } from '../../contract/network.ts'
import { type Cidr, contains, formatCidr, parseCidr } from '../../lib/cidr.ts'

export const sliceBits = 20

const sizeOf = ({ prefix }: Cidr) => 1n << BigInt(32 - prefix)

/**
 * Returns the first /20 of `network` that overlaps neither `taken` nor the default networks of agents, which hosts
 * outside the mesh may use. Undefined if none is free.
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
    // Round up to the start of the next /20, because an operator may have chosen a smaller network.
    if (end > value) value = ((end + step - 1n) / step) * step
  }
  return value < whole.value + sizeOf(whole) ? formatCidr({ ...slice, value }) : undefined
}
