export interface RuleInput {
  readonly slot: number
  /** The slot's guests, as CIDR. */
  readonly guests: string
}

/** All interfaces of all agents on the machine, and those of one. */
const anyTap = '"mote*"'
export const tapPrefix = (slot: number) => `mote${slot.toString(16)}`
export const tableName = (slot: number) => `mote_${slot.toString(16)}`

/**
 * The agent's whole firewall, as one nft transaction that replaces what was there. It names no single VM: `fib` drops
 * whatever claims an address that is not routed to the tap it came from, so a boot needs no change here.
 * A guest reaches the internet side, but no other guest, not the host (its answers excepted) and no link-local metadata.
 */
export function rules({ slot, guests }: RuleInput): string {
  const table = `inet ${tableName(slot)}`
  const tap = `"${tapPrefix(slot)}*"`
  return `
table ${table} {}
delete table ${table}
table ${table} {
  chain antispoof {
    type filter hook prerouting priority raw; policy accept;
    iifname ${tap} fib saddr . iif oif missing drop
  }
  chain host {
    type filter hook input priority filter; policy accept;
    iifname ${tap} ct state established,related accept
    iifname ${tap} drop
  }
  chain guests {
    type filter hook forward priority filter; policy accept;
    iifname ${tap} oifname ${anyTap} drop
    iifname ${tap} ip daddr { 127.0.0.0/8, 169.254.0.0/16 } drop
    iifname ${tap} meta nfproto ipv6 drop
    iifname ${tap} accept
    oifname ${tap} ct state established,related accept
    oifname ${tap} drop
  }
  chain egress {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr ${guests} oifname != ${anyTap} masquerade
  }
}
`
}
