import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Type, type Static } from 'typebox'
import { Value } from 'typebox/value'
import { readIfExists, writeFileAtomic } from '../../../lib/files.ts'
import type { SnapshotMade, SnapshotSource, VmHome } from '../driver.ts'
import { StepError } from '../../base/step-error.ts'

/** State of a simulated guest. A migration sends it to the other host. */
export const GuestState = Type.Object({
  /** Random value that stands for the guest's memory: each boot creates one; a restored guest keeps its snapshot's. */
  memory: Type.String(),
  /** Random value that stands for MAC, machine id and entropy, which differ between all running VMs. */
  identity: Type.String(),
})
export type GuestState = Static<typeof GuestState>

export const newGuest = (): GuestState => ({ memory: randomUUID(), identity: randomUUID() })

const RunFile = Type.Object({ boot: Type.Integer(), guest: GuestState })
const runFile = (home: VmHome) => join(home.dir, 'fake.json')

/** Writes the file that marks the VM as running, so that a restarted agent finds it. */
export const markRunning = (home: VmHome, boot: number, guest: GuestState) =>
  writeFileAtomic(runFile(home), JSON.stringify({ boot, guest }), { durable: false })

export const runFileOf = runFile

/** Returns the guest of a running VM; undefined if the VM does not run. */
export async function runningGuest(home: VmHome): Promise<GuestState | undefined> {
  const text = await readIfExists(runFile(home))
  const stored: unknown = text === undefined ? undefined : JSON.parse(text)
  return Value.Check(RunFile, stored) ? stored.guest : undefined
}

export const madeBy = 'fake/1'
const snapshotFile = (dir: string) => join(dir, 'guest.json')

export async function saveGuest(dir: string, guest: GuestState, imageDigest: string): Promise<SnapshotMade> {
  const startedMs = performance.now()
  await writeFile(snapshotFile(dir), JSON.stringify(guest))
  return { madeBy, imageDigest, pauseMs: performance.now() - startedMs, notes: {} }
}

/** Loads the guest of a snapshot. A clone has the snapshot's memory and a new identity. */
export async function loadGuest({ dir, made, renew }: SnapshotSource): Promise<GuestState> {
  if (made.madeBy !== madeBy)
    throw new StepError('snapshot_mismatch', `the snapshot was made by ${made.madeBy}, this host has ${madeBy}`)
  const guest = Value.Parse(GuestState, JSON.parse(await readFile(snapshotFile(dir), 'utf8')))
  return renew ? { ...guest, identity: newGuest().identity } : guest
}
