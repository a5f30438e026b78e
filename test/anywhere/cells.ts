/**
 * The test systems on which the README's first command runs. All combinations of Debian release, Node, user, folder and
 * path would be 48 systems and take a working day. So bookworm and trixie get 8 systems that cover each pair of values of
 * two properties, and sid gets 4 that cover each value of one property. Further systems each have an unusual property.
 */
import { type OddName, oddities } from './oddities.ts'

export type Distribution = 'bookworm' | 'trixie' | 'sid'
export type NodeChoice = 'distribution' | 'newer'
/** Location of the checkout, and the user that runs the command. Home directories have mode 0700. */
export type Place = 'root' | 'srv' | 'sudo' | 'user'
export type PathKind = 'plain' | 'umlaut'

export interface Cell {
  readonly name: string
  readonly distribution: Distribution
  readonly node: NodeChoice
  readonly place: Place
  readonly path: PathKind
  /** The unusual property of this test system; null if it has none. */
  readonly odd: OddName | null
}

export const distributions = {
  bookworm: 'Debian 12',
  trixie: 'Debian 13',
  sid: 'Debian unstable',
} as const satisfies Record<Distribution, string>

export const places = {
  root: 'root in /root',
  srv: 'root in /srv',
  sudo: 'user with sudo',
  user: 'user without sudo',
} as const satisfies Record<Place, string>

type Row = readonly [node: NodeChoice, place: Place, path: PathKind]

/** Combinations of Node, user, folder and path that cover each pair of values of two of these properties. */
const pairs: readonly Row[] = [
  ['distribution', 'root', 'plain'],
  ['newer', 'root', 'umlaut'],
  ['distribution', 'srv', 'umlaut'],
  ['newer', 'srv', 'plain'],
  ['distribution', 'sudo', 'plain'],
  ['newer', 'sudo', 'umlaut'],
  ['distribution', 'user', 'umlaut'],
  ['newer', 'user', 'plain'],
]

/** Combinations of Node, user, folder and path that cover each value of each of these properties. */
const singles: readonly Row[] = [
  ['distribution', 'root', 'plain'],
  ['newer', 'srv', 'umlaut'],
  ['newer', 'sudo', 'plain'],
  ['distribution', 'user', 'umlaut'],
]

const usual = { bookworm: pairs, trixie: pairs, sid: singles } as const satisfies Record<Distribution, readonly Row[]>

function usualCells(distribution: Distribution): Cell[] {
  return usual[distribution].map(([node, place, path]) => ({
    name: [distribution, node === 'newer' ? 'new-node' : 'own-node', place, path].join('-'),
    distribution,
    node,
    place,
    path,
    odd: null,
  }))
}

/**
 * Systems with one unusual property. Otherwise they use the combination that works most often, so that a failure is due
 * to that property.
 */
const oddCells = (Object.keys(oddities) as OddName[]).map(
  (odd): Cell => ({
    name: `odd-${odd}`,
    distribution: 'bookworm',
    node: 'newer',
    place: 'srv',
    path: 'plain',
    odd,
  }),
)

export const cells: readonly Cell[] = [
  ...(Object.keys(distributions) as Distribution[]).flatMap(usualCells),
  ...oddCells,
]

/** Path of the checkout on this test system, and the account that owns it. */
export function checkoutOf({ place, path }: Cell): {
  readonly dir: string
  readonly home: string
  readonly user: string
} {
  const user = place === 'root' || place === 'srv' ? 'root' : 'ana'
  const home = user === 'root' ? '/root' : `/home/${user}`
  const parent = place === 'srv' ? '/srv' : home
  return { dir: path === 'umlaut' ? `${parent}/Meine Übungen/mote` : `${parent}/mote`, home, user }
}
