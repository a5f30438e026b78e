import { isDeepStrictEqual } from 'node:util'
import { CommandError } from '../../lib/exec.ts'
import { createTurns } from '../../lib/turns.ts'
import type { RunCommand } from '../launcher/launcher.ts'
import { gotoElement, parseListing, type TableListing } from './listing.ts'
import {
  baseChains,
  baseTable,
  chainsOf,
  dropOwner,
  dropVm,
  gatewaySets,
  type GuardedVm,
  tableName,
  type TableInput,
  vmChains,
} from './rules.ts'

/**
 * The agent's nft table: loads it, replaces what belongs to one VM in one transaction, and puts right what somebody else
 * has changed. Calls take turns, since each is a process of its own (4 ms).
 */
export class Firewall {
  #input: TableInput
  readonly #vms = new Map<string, GuardedVm>()
  /** The rules of each chain as the kernel said them back when they were loaded. */
  readonly #loaded = new Map<string, string>()
  readonly #turns = createTurns()
  readonly #run: RunCommand
  /** Undefined: what an earlier agent has loaded is not known. */
  #gateways: readonly string[] | undefined

  constructor(input: TableInput, run: RunCommand) {
    this.#input = input
    this.#run = run
  }

  /**
   * Loads what is the same for every VM; chains of VMs that an earlier agent connected go on as they are.
   * @throws CommandError where nft cannot load it
   */
  open(): Promise<void> {
    return this.#inTurn(async () => {
      const there = await this.#list()
      const same = there && baseChains.every(name => there.chains.has(name)) && !hasStrangers(there)
      await this.#load(`${same || !there ? '' : this.#deleteTable()}${baseTable(this.#input)}`)
      await this.#remember()
    })
  }

  /** Other addresses of the agent itself from now on; VMs' chains stay. */
  change(input: TableInput): Promise<void> {
    return this.#inTurn(async () => {
      this.#input = input
      await this.#load(baseTable(input))
      await this.#remember()
    })
  }

  /**
   * Makes the VM's rules these. Those that are loaded already are left to `heal`.
   * @param until `known`: what somebody else changes from then on is put right; `hold` is 8 ms earlier
   */
  put(vm: GuardedVm, until: 'hold' | 'known'): Promise<void> {
    const { promise: holds, resolve } = Promise.withResolvers<void>()
    const turn = this.#inTurn(async () => {
      const before = this.#vms.get(vm.tap)
      if (isDeepStrictEqual(before, vm)) return
      this.#vms.delete(vm.tap)
      try {
        await this.#load(vmChains(this.#input.slot, vm))
      } catch (error) {
        // These hold still, and `heal` watches over them.
        if (before) this.#vms.set(vm.tap, before)
        throw error
      }
      this.#vms.set(vm.tap, vm)
      resolve()
      await this.#rememberVm(vm)
    })
    return until === 'known' ? turn : Promise.race([turn, holds])
  }

  /** Nothing passes these taps from here on. Idempotent. */
  remove(taps: readonly string[]): Promise<void> {
    return this.#inTurn(async () => {
      const known = taps.flatMap(tap => this.#vms.get(tap) ?? [])
      for (const tap of taps) this.#vms.delete(tap)
      const dropped = known.length > 0 && (await this.#dropLoaded(known)) ? known : []
      for (const tap of taps)
        if (!dropped.some(vm => vm.tap === tap)) await this.#dropFound(tap, known.find(vm => vm.tap === tap)?.owner)
    })
  }

  /** What there is of it. */
  async #dropFound(tap: string, owner: number | undefined): Promise<void> {
    const there = await this.#list()
    if (!there) return
    if (owner !== undefined && there.elements.get('vmms')?.has(JSON.stringify(owner)))
      await this.#load(dropOwner(this.#input.slot, owner))
    const names = Object.values(chainsOf(tap))
    const maps = ['leaving_vms', 'entering_vms'].filter(map =>
      [...(there.elements.get(map) ?? [])].some(element => element.startsWith(`["${tap}",`)),
    )
    const chains = names.filter(name => there.chains.has(name))
    for (const name of names) this.#loaded.delete(name)
    if (maps.length + chains.length > 0) await this.#load(dropVm(this.#input.slot, tap, maps, chains))
  }

  /** Hosts whose gateways may reach apps here. */
  setGateways(addresses: readonly string[]): Promise<void> {
    return this.#inTurn(async () => {
      if (isDeepStrictEqual(this.#gateways, addresses)) return
      await this.#load(gatewaySets(this.#input.slot, addresses))
      this.#gateways = addresses
    })
  }

  /** Compares the kernel's rules with what was loaded, and loads again what differs. @returns the taps it was about */
  heal(): Promise<string[]> {
    return this.#inTurn(async () => {
      const there = await this.#list()
      const isWrong = (chain: string) => there?.chains.get(chain) !== this.#loaded.get(chain)
      if (!there || hasStrangers(there) || baseChains.some(isWrong)) {
        await this.#rebuild()
        return [...this.#vms.keys()]
      }
      const wrong = [...this.#vms.values()].filter(({ tap, owner }) => {
        const { leaving, entering } = chainsOf(tap)
        const mapped =
          there.elements.get('leaving_vms')?.has(gotoElement(tap, leaving)) &&
          there.elements.get('entering_vms')?.has(gotoElement(tap, entering))
        const mute = owner === undefined || there.elements.get('vmms')?.has(JSON.stringify(owner))
        return !mapped || !mute || isWrong(leaving) || isWrong(entering)
      })
      for (const vm of wrong) {
        await this.#load(vmChains(this.#input.slot, vm))
        await this.#rememberVm(vm)
      }
      return wrong.map(({ tap }) => tap)
    })
  }

  close(): Promise<void> {
    return this.#inTurn(() => this.#load(this.#deleteTable()))
  }

  /** Everything anew, in one transaction: no packet sees a table without rules. */
  async #rebuild(): Promise<void> {
    const vms = [...this.#vms.values()].map(vm => vmChains(this.#input.slot, vm))
    const gateways = gatewaySets(this.#input.slot, this.#gateways ?? [])
    await this.#load([this.#deleteTable(), baseTable(this.#input), ...vms, gateways].join(''))
    await this.#remember()
  }

  #deleteTable(): string {
    const table = `inet ${tableName(this.#input.slot)}`
    return `add table ${table}\ndelete table ${table}\n`
  }

  async #rememberVm({ tap }: GuardedVm): Promise<void> {
    const table = tableName(this.#input.slot)
    const remember = async (name: string) => {
      const { chains } = parseListing(await this.#run('nft', ['-j', 'list', 'chain', 'inet', table, name]))
      this.#loaded.set(name, chains.get(name) ?? '')
    }
    await Promise.all(Object.values(chainsOf(tap)).map(remember))
  }

  /** What is known to be loaded, in one go. False: nothing was done, somebody else has changed some of it. */
  async #dropLoaded(vms: readonly GuardedVm[]): Promise<boolean> {
    const { slot } = this.#input
    const all = vms.map(
      ({ tap, owner }) =>
        dropOwner(slot, owner) + dropVm(slot, tap, ['leaving_vms', 'entering_vms'], Object.values(chainsOf(tap))),
    )
    const dropped = await this.#load(all.join('')).then(
      () => true,
      () => false,
    )
    if (dropped) for (const { tap } of vms) for (const name of Object.values(chainsOf(tap))) this.#loaded.delete(name)
    return dropped
  }

  /** One transaction. */
  async #load(statements: string): Promise<void> {
    await this.#run('nft', ['-f', '-'], { input: statements })
  }

  /** What the kernel has made of it. Asked anew: nft 1.0.6 crashes when it shall echo (`-e -j`) a flushed chain. */
  async #remember(): Promise<void> {
    const there = await this.#list()
    for (const [chain, rules] of there?.chains ?? []) this.#loaded.set(chain, rules)
  }

  async #list(): Promise<TableListing | undefined> {
    const table = tableName(this.#input.slot)
    try {
      return parseListing(await this.#run('nft', ['-j', 'list', 'table', 'inet', table]))
    } catch (error) {
      if (error instanceof CommandError && error.stderr.includes('No such file')) return undefined
      throw error
    }
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    return this.#turns.take('table', act)
  }
}

/** A chain that is neither of the base nor of a VM. */
function hasStrangers({ chains }: TableListing): boolean {
  const ours: ReadonlySet<string> = new Set(baseChains)
  return [...chains.keys()].some(name => !ours.has(name) && !/^(in|out)_mote/.test(name))
}
