/** Host labels that an app requires or prefers. Pure. */
import { type Labels, labelsText } from '../../lib/labels.ts'

/** An app's required and preferred host labels, as they are stored in the database and sent in the API. */
export interface HostSettings {
  /** A host must have all of these labels. */
  readonly require: Labels
  /** Hosts with more of these labels are preferred, as long as they have capacity. */
  readonly prefer: Labels
}

export interface HostWishes extends HostSettings {
  /** Names of the labels that apps may use. All others are ignored. */
  readonly visible: readonly string[]
}

export interface Labeled {
  readonly labels?: Labels
}

/**
 * Combines the app's requirements with the labels that apps may use; undefined if it has no requirements.
 * @param visible names of the labels that apps may use
 */
export const wishesOf = (settings: HostSettings | null, visible: readonly string[]): HostWishes | undefined =>
  settings === null ? undefined : { ...settings, visible }

/** Returns those labels of a host that apps may use. */
export function visibleLabels({ labels = {} }: Labeled, visible: readonly string[]): Labels {
  return Object.fromEntries(visible.flatMap(name => (Object.hasOwn(labels, name) ? [[name, labels[name] ?? '']] : [])))
}

const has = ({ labels }: Labeled, [name, value]: readonly [string, string], visible: readonly string[]) =>
  visible.includes(name) && labels !== undefined && Object.hasOwn(labels, name) && labels[name] === value

export const fulfils = (host: Labeled, wishes: HostWishes | undefined): boolean =>
  wishes === undefined || Object.entries(wishes.require).every(pair => has(host, pair, wishes.visible))

/** Returns the share of the preferred labels that the host has, from 0 to 1. */
export function liking(host: Labeled, wishes: HostWishes | undefined): number {
  const wanted = wishes ? Object.entries(wishes.prefer) : []
  if (!wishes || wanted.length === 0) return 0
  return wanted.filter(pair => has(host, pair, wishes.visible)).length / wanted.length
}

/** Explains to users that no host has the required labels, and lists the labels that hosts have. */
export function unfulfilled(hosts: readonly Labeled[], { require, visible }: HostWishes): string {
  const values = new Map<string, Set<string>>()
  for (const host of hosts)
    for (const [name, value] of Object.entries(visibleLabels(host, visible)))
      values.set(name, (values.get(name) ?? new Set()).add(value))
  const known = [...values].map(([name, all]) => `${name} (${[...all].toSorted().join(', ')})`)
  const has =
    known.length > 0 ? `Labels that hosts have: ${known.join('; ')}` : 'Hosts have no labels that apps can use'
  return `No host has ${labelsText(require)}. ${has}`
}
