/**
 * Test systems with one unusual property. On each, the README's first command either works, or fails with a message
 * that tells a new user how to fix the problem.
 */
import type { RoomOptions } from './room.ts'
import { dropped, smallGroup } from './limits.ts'
import {
  behindProxy,
  occupyPort,
  type Prepared,
  type Preparing,
  shadow,
  withFaketime,
  withLocale,
  withoutIpv6,
} from './prepare.ts'

export interface Oddity {
  /** Description for docs/anywhere.md. */
  readonly about: string
  /** Pattern for the end of the output, which the command must print if it fails; null if it must not fail. */
  readonly says: RegExp | null
  /** True if the packages are installed beforehand, because the unusual property does not affect their installation. */
  readonly installed?: true
  readonly room?: Partial<Pick<RoomOptions, 'devices' | 'tmp' | 'freeMib'>>
  readonly env?: Readonly<Record<string, string>>
  /** Command prefix for the README's command, such as `sh -c 'umask 077; exec "$@"' sh`. */
  readonly through?: readonly string[]
  prepare?(at: Preparing): Promise<Prepared | undefined>
}

const throughShell = (script: string) => ['sh', '-c', `${script}; exec "$@"`, 'sh']
/** Returns a pattern for a message that contains both the problem and the remedy, in either order. */
const named = (wrong: string, change: string) => new RegExp(`^(?=[\\s\\S]*${wrong})[\\s\\S]*(?:${change})`, 'i')
const tmp = 'nosuid,nodev,mode=1777'

export const oddities = {
  'one-core': {
    about: 'one core and 1.5 GiB of memory',
    says: null,
    installed: true,
    through: ['taskset', '--cpu-list', '0'],
    prepare: at => smallGroup(at, 1536),
  },
  'umask-077': { about: 'umask 077', says: null, through: throughShell('umask 077') },
  'no-language': { about: 'no LANG', says: null, installed: true, env: { LANG: '' } },
  'other-language': {
    about: 'LANG=tr_TR.UTF-8',
    says: null,
    installed: true,
    env: { LANG: 'tr_TR.UTF-8' },
    prepare: at => withLocale(at, 'tr_TR'),
  },
  'missing-locale': {
    about: 'LANG and LC_ALL name a locale that is not installed, as ssh may forward it',
    says: null,
    installed: true,
    env: { LANG: 'de_AT.UTF-8', LC_ALL: 'de_AT.UTF-8' },
  },
  'no-ipv6': { about: 'IPv6 switched off', says: null, installed: true, prepare: withoutIpv6 },
  'no-tun': { about: 'no /dev/net/tun', says: null, installed: true, room: { devices: ['kvm'] } },
  'no-nftables': {
    // The test machine's kernel has nf_tables, so a fake `nft` fails as the real one would without it.
    about: 'no nf_tables in the kernel (simulated by a fake nft)',
    says: null,
    installed: true,
    prepare: at => shadow(at, 'nft', 'Error: Could not process rule: Operation not supported'),
  },
  container: {
    about: 'an unprivileged container: the Linux capabilities that Docker leaves, no user namespaces, no /dev/net/tun',
    says: /capabilit|privilege|namespace|network|container/i,
    room: { devices: [] },
    through: dropped,
  },
  'port-7070': {
    about: 'port 7070 taken',
    says: named('7070', '--port|MOTE_PORT'),
    installed: true,
    prepare: at => occupyPort(at, 7070),
  },
  'port-7080': {
    about: 'port 7080 taken',
    says: named('7080', '--gateway-port|MOTE_GATEWAY_PORT'),
    installed: true,
    prepare: at => occupyPort(at, 7080),
  },
  'small-disk': {
    about: '300 MiB of disk left',
    says: /disk is full: free at least/,
    room: { freeMib: 300 },
  },
  proxy: {
    about: 'a proxy with its own certificate authority as the only way to the internet',
    says: null,
    prepare: behindProxy,
  },
  'tmp-noexec': { about: '/tmp mounted noexec', says: null, room: { tmp: `${tmp},noexec` } },
  'small-tmp': { about: '/tmp of 10 MiB', says: named('/tmp', 'space'), room: { tmp: `${tmp},size=10m` } },
  'clock-behind': {
    about: 'a clock one year behind',
    says: /clock|date|time/i,
    prepare: withFaketime,
    through: ['faketime', '-f', '-365d'],
    env: { FAKETIME_DONT_FAKE_MONOTONIC: '1' },
  },
  'clock-ahead': {
    about: 'a clock one year ahead',
    says: /clock|date|time|expired/i,
    prepare: withFaketime,
    through: ['faketime', '-f', '+365d'],
    env: { FAKETIME_DONT_FAKE_MONOTONIC: '1' },
  },
  'no-apt': {
    about: 'a distribution without apt',
    // The message must name the missing programs instead of an apt command, which would not help here.
    says: /^(?![\s\S]*apt-get)[\s\S]*qemu/i,
    prepare: async ({ asRoot }) =>
      void (await asRoot(['sh', '-c', 'rm /usr/bin/apt /usr/bin/apt-get /usr/bin/apt-cache'])),
  },
} as const satisfies Record<string, Oddity>

export type OddName = keyof typeof oddities
export const oddityOf = (name: OddName): Oddity => oddities[name]
