/**
 * Requests registry credentials of projects from the control plane. They are held in memory, and only during a pull.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Value } from 'typebox/value'
import { type Bus, BusError } from '../../bus/bus.ts'
import { type RegistryLogin, RegistryLoginAnswer, type RegistryLoginRequest, subjects } from '../../contract/agent.ts'
import { backoffMs } from '../../lib/backoff.ts'
import type { AskLogin } from './access.ts'

const answerMs = 5000
/** Together with their delays, these retries take two to four seconds. */
const mostRetries = 4

/** Requests the credential of a build's project for the registry of an image; undefined if the project has none. */
export type AskBuildLogin = (buildId: string, image: string, signal: AbortSignal) => Promise<RegistryLogin | undefined>

export const loginsFrom =
  (bus: Bus, hostId: string): AskLogin =>
  (vmId, signal) =>
    ask(bus, hostId, { vmId }, signal)

/**
 * Returns a function that requests credentials, and retries while the control plane restarts, which takes seconds. If
 * the control plane does not answer, the image is treated as public: the registry refuses the pull of a private one.
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
