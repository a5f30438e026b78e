import { isDeepStrictEqual } from 'node:util'
import { CommandError } from '../../lib/exec.ts'
import { createKeyedMutex } from '../../lib/keyed-mutex.ts'
import type { RunCommand } from '../launcher/launcher.ts'
import { kindOfSet, type RefusalKind } from '../base/network-limits.ts'
import { gotoElement, keysOf, parseListing, type TableListing } from './listing.ts'
import {
  baseChains,
  baseTable,
  chainsOf,
  deleteTables,
  dropOwner,
  dropVm,
  gatewaySets,
  type GuardedVm,
  tableName,
  type TableInput,
  tapOfChain,
  vmChains,
  vmMaps,
} from './rules.ts'

/**
 * Manages the agent's nft table: loads it, replaces the rules of one VM in one transaction, and repairs changes made by
 * other programs. Calls run one after the other, because each one starts a process (4 ms).
 */
export class Firewall {
  #input: TableInput
  /** Counts of refused packets by tap, as read by the last `heal`. */
  #refused: readonly Refused[] = []
  readonly #vms = new Map<string, GuardedVm>()
  /** The rules of each chain, as the kernel listed them after the agent had loaded them. */
  readonly #loaded = new Map<string, string>()
  readonly #mutex = createKeyedMutex()
  readonly #run: RunCommand
  /** The addresses that `setGateways` has loaded. Undefined before: those that an earlier agent loaded are unknown. */
  #gateways: readonly string[] | undefined

  constructor(input: TableInput, run: RunCommand) {
    this.#input = input
    this.#run = run
  }

  /**
   * Loads the rules that all VMs share. The chains of VMs that an earlier agent connected stay unchanged.
   * @returns the error if the kernel does not support limits; guests then have none
   * @throws CommandError if nft cannot load the rules
   */
  open(): Promise<CommandError | undefined> {
    return this.#inTurn(async () => {
      const there = await this.#list()
      const same = there && baseChains.every(name => there.chains.has(name)) && !hasStrangers(there)
      const load = () => this.#load(`${same || !there ? '' : deleteTables(this.#input)}${baseTable(this.#input)}`)
      const unlimited = await load().catch(async (error: unknown) => {
        if (!(error instanceof CommandError)) throw error
        this.#input = { ...this.#input, limits: null }
        await load()
        return error
      })
      await this.#remember()
      return unlimited ?? undefined
    })
  }

  /** Loads the shared rules again, with other addresses of the agent. The chains of VMs are kept. */
  change(input: TableInput): Promise<void> {
    return this.#inTurn(async () => {
      this.#input = { ...input, limits: this.#input.limits && input.limits }
      await this.#load(baseTable(this.#input))
      await this.#remember()
    })
  }

  /**
   * Loads the rules of one VM. Does nothing if the agent has loaded the same rules before, because `heal` checks those.
   * @param until `hold` resolves once the rules are loaded; `known` also waits until they are read back, so that later
   * changes by other programs are detected (8 ms more)
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
        // The VM's old rules still apply, so `heal` must keep checking them.
        if (before) this.#vms.set(vm.tap, before)
        throw error
      }
      this.#vms.set(vm.tap, vm)
      resolve()
      await this.#rememberVm(vm)
    })
    return until === 'known' ? turn : Promise.race([turn, holds])
  }

  /**
   * Removes the rules of these taps, which blocks all their packets. Idempotent.
   * @throws CommandError; rules that could not be removed are still tracked
   */
  remove(taps: readonly string[]): Promise<void> {
    return this.#inTurn(async () => {
      const known = taps.flatMap(tap => this.#vms.get(tap) ?? [])
      const rest = (await this.#dropLoaded(known)) ? taps.filter(tap => known.every(vm => vm.tap !== tap)) : taps
      const owners = new Set(known.map(({ owner }) => owner))
      if (rest.length > 0) await this.#dropFound({ tap: tap => rest.includes(tap), owner: uid => owners.has(uid) })
    })
  }

  /**
   * Removes all rules that an earlier agent left for taps that are not in `taps`.
   * @param owners uids of the VMMs of `taps`
   */
  keepOnly(taps: ReadonlySet<string>, owners: ReadonlySet<number>): Promise<void> {
    return this.#inTurn(() => this.#dropFound({ tap: tap => !taps.has(tap), owner: uid => !owners.has(uid) }))
  }

  /** Lists the table, and removes the rules that match in one transaction. */
  async #dropFound(which: Which): Promise<void> {
    const there = await this.#list()
    if (there) await this.#dropListed(there, which)
    this.#forget([...this.#vms.keys()].filter(which.tap))
  }

  async #dropListed(there: TableListing, which: Which): Promise<void> {
    const { slot } = this.#input
    const mapped = new Map(vmMaps.map(map => [map, new Set(keysOf(there, map))]))
    const named = [...there.chains.keys()].flatMap(chain => tapOfChain(chain) ?? [])
    const taps = [...new Set([...named, ...[...mapped.values()].flatMap(keys => [...keys])])].filter(which.tap)
    const owners = [...(there.elements.get('vmms') ?? [])].map(Number).filter(which.owner)
    const drop = (tap: string) =>
      dropVm(
        slot,
        tap,
        vmMaps.filter(map => mapped.get(map)?.has(tap)),
        Object.values(chainsOf(tap)).filter(chain => there.chains.has(chain)),
      )
    if (taps.length + owners.length > 0)
      await this.#load([...owners.map(owner => dropOwner(slot, owner)), ...taps.map(drop)].join(''))
    this.#forget(taps)
  }

  /** Sets the addresses of the hosts whose gateways may reach apps on this host. */
  setGateways(addresses: readonly string[]): Promise<void> {
    return this.#inTurn(async () => {
      if (isDeepStrictEqual(this.#gateways, addresses)) return
      await this.#load(gatewaySets(this.#input.slot, addresses))
      this.#gateways = addresses
    })
  }

  /**
   * Compares the kernel's rules with those that the agent has loaded, and reloads those that differ.
   * @returns the taps whose rules were reloaded
   */
  heal(): Promise<string[]> {
    return this.#inTurn(async () => {
      const there = await this.#list()
      this.#refused = there ? refusedIn(there) : []
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

  /** Returns how many packets of guests were refused since the table was loaded, as read by the last `heal`. */
  refused(): readonly Refused[] {
    return this.#refused
  }

  close(): Promise<void> {
    return this.#inTurn(() => this.#load(deleteTables(this.#input)))
  }

  /** Reloads the whole table in one transaction, so that no packet meets a table without rules. */
  async #rebuild(): Promise<void> {
    const vms = [...this.#vms.values()].map(vm => vmChains(this.#input.slot, vm))
    const gateways = gatewaySets(this.#input.slot, this.#gateways ?? [])
    await this.#load([deleteTables(this.#input), baseTable(this.#input), ...vms, gateways].join(''))
    await this.#remember()
  }

  async #rememberVm({ tap }: GuardedVm): Promise<void> {
    const table = tableName(this.#input.slot)
    const remember = async (name: string) => {
      const { chains } = parseListing(await this.#run('nft', ['-j', 'list', 'chain', 'inet', table, name]))
      this.#loaded.set(name, chains.get(name) ?? '')
    }
    await Promise.all(Object.values(chainsOf(tap)).map(remember))
  }

  #forget(taps: readonly string[]): void {
    for (const tap of taps) {
      this.#vms.delete(tap)
      for (const name of Object.values(chainsOf(tap))) this.#loaded.delete(name)
    }
  }

  /**
   * Removes the rules that the agent has loaded for these VMs, in one transaction. Returns false, with nothing removed,
   * if another program has changed some of them.
   */
  async #dropLoaded(vms: readonly GuardedVm[]): Promise<boolean> {
    if (vms.length === 0) return true
    const { slot } = this.#input
    const all = vms.map(
      ({ tap, owner }) => dropOwner(slot, owner) + dropVm(slot, tap, vmMaps, Object.values(chainsOf(tap))),
    )
    const dropped = await this.#load(all.join('')).then(
      () => true,
      () => false,
    )
    if (dropped) this.#forget(vms.map(({ tap }) => tap))
    return dropped
  }

  /** Runs all statements as one nft transaction. */
  async #load(statements: string): Promise<void> {
    await this.#run('nft', ['-f', '-'], { input: statements })
  }

  /**
   * Reads back the rules as the kernel stores them. This takes a separate listing, because nft 1.0.6 crashes when it
   * echoes (`-e -j`) a flushed chain.
   */
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
    return this.#mutex.take('table', act)
  }
}

/** How many packets of one tap were refused for exceeding one limit. */
export interface Refused {
  readonly tap: string
  readonly kind: RefusalKind
  readonly count: number
}

const refusedIn = ({ counts }: TableListing): Refused[] =>
  [...counts].flatMap(([set, taps]) => {
    const kind = kindOfSet(set)
    return kind ? [...taps].map(([tap, count]) => ({ tap, kind, count })) : []
  })

/** True if the table has a chain that is neither a base chain nor a chain of a VM. */
function hasStrangers({ chains }: TableListing): boolean {
  const ours: ReadonlySet<string> = new Set(baseChains)
  return [...chains.keys()].some(name => !ours.has(name) && tapOfChain(name) === undefined)
}

/** Selects VMs by tap and by the uid of their VMM. */
interface Which {
  tap(name: string): boolean
  owner(uid: number): boolean
}
