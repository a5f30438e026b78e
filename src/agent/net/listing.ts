/** Parses the JSON that `nft -j` prints for a table. Two readings of the same rules have equal results. */
import { Type } from 'typebox'
import { Value } from 'typebox/value'

const Named = Type.Object({ name: Type.String() })
const RuleEntry = Type.Object({
  chain: Type.String(),
  expr: Type.Array(Type.Unknown()),
  comment: Type.Optional(Type.String()),
})
const MapEntry = Type.Object({ name: Type.String(), elem: Type.Optional(Type.Array(Type.Unknown())) })
const CountedElement = Type.Object({
  elem: Type.Object({ val: Type.String(), counter: Type.Object({ packets: Type.Integer() }) }),
})
const Listing = Type.Object({ nftables: Type.Array(Type.Record(Type.String(), Type.Unknown())) })

export interface TableListing {
  /** The rules of each chain as text, by chain; a chain without rules has an empty text. */
  readonly chains: ReadonlyMap<string, string>
  /** Elements of each map and set, as `JSON(key)` or `JSON([key, value])`. */
  readonly elements: ReadonlyMap<string, ReadonlySet<string>>
  /** Packet counts in the elements of sets: by set, then by element. */
  readonly counts: ReadonlyMap<string, ReadonlyMap<string, number>>
}

/** Parses a listing. @param text output of `nft -j list table` or `nft -j list chain` */
export function parseListing(text: string): TableListing {
  const chains = new Map<string, string[]>()
  const elements = new Map<string, Set<string>>()
  const counts = new Map<string, ReadonlyMap<string, number>>()
  const listing: unknown = JSON.parse(text)
  for (const { chain, rule, map, set } of Value.Check(Listing, listing) ? listing.nftables : []) {
    if (Value.Check(Named, chain)) chains.set(chain.name, chains.get(chain.name) ?? [])
    if (Value.Check(RuleEntry, rule))
      chains.set(rule.chain, [...(chains.get(rule.chain) ?? []), JSON.stringify([rule.expr, rule.comment ?? null])])
    for (const holder of [map, set])
      if (Value.Check(MapEntry, holder))
        elements.set(holder.name, new Set((holder.elem ?? []).map(element => JSON.stringify(element))))
    if (Value.Check(MapEntry, set)) counts.set(set.name, countsOf(set.elem ?? []))
  }
  return { chains: new Map([...chains].map(([name, rules]) => [name, rules.join('\n')])), elements, counts }
}

const countsOf = (elements: readonly unknown[]): ReadonlyMap<string, number> =>
  new Map(
    elements.flatMap(element =>
      Value.Check(CountedElement, element) ? [[element.elem.val, element.elem.counter.packets] as const] : [],
    ),
  )

/** Returns, as JSON, the element of a verdict map that sends the packets of a tap to a chain. */
export const gotoElement = (tap: string, chain: string) => JSON.stringify([tap, { goto: { target: chain } }])

/** Returns the taps for which a verdict map has an element. */
export const keysOf = ({ elements }: TableListing, map: string): string[] =>
  [...(elements.get(map) ?? [])].flatMap(element => /^\["([^"]+)",/.exec(element)?.[1] ?? [])
