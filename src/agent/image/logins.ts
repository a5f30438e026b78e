/** Asks the control plane for credentials of projects. They stay in memory, and only while an image is pulled. */
import { setTimeout as delay } from 'node:timers/promises'
import { Value } from 'typebox/value'
import { type Bus, BusError } from '../../bus/bus.ts'
import { type RegistryLogin, RegistryLoginAnswer, type RegistryLoginRequest, subjects } from '../../contract/agent.ts'
import { backoffMs } from '../../lib/backoff.ts'
import type { AskLogin } from './access.ts'

const answerMs = 5000
/** Two to four seconds in all. */
const mostRetries = 4

/** Asks for the credential of the build's project for the registry of an image; undefined if there is none. */
export type AskBuildLogin = (buildId: string, image: string, signal: AbortSignal) => Promise<RegistryLogin | undefined>

export const loginsFrom =
  (bus: Bus, hostId: string): AskLogin =>
  (vmId, signal) =>
    ask(bus, hostId, { vmId }, signal)

/**
 * A control plane that starts again serves within seconds. Where none does, the image counts as public: its registry
 * refuses it if it is not.
 */
export const buildLoginsFrom =
  (bus: Bus, hostId: string): AskBuildLogin =>
  async (vmId, image, signal) => {
    for (let tries = 0; ; tries++)
      try {
        return await ask(bus, hostId, { vmId, image }, signal)
      } catch (cause) {
        if (!(cause instanceof BusError) || cause.code !== 'no_responder') throw cause
        if (tries === mostRetries) return undefined
        await delay(backoffMs(tries, Math.random()), undefined, { signal })
      }
  }

async function ask(bus: Bus, hostId: string, request: RegistryLoginRequest, signal: AbortSignal) {
  const answer = await bus.request(subjects.registryLogin(hostId), request, { timeoutMs: answerMs, signal })
  return Value.Parse(RegistryLoginAnswer, answer).login ?? undefined
}
