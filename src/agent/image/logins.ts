/** Asks the control plane for credentials of projects. They stay in memory, and only while an image is pulled. */
import { Value } from 'typebox/value'
import type { Bus } from '../../bus/bus.ts'
import { type RegistryLogin, RegistryLoginAnswer, type RegistryLoginRequest, subjects } from '../../contract/agent.ts'
import type { AskLogin } from './access.ts'

const answerMs = 5000

/** Asks for the credential of the build's project for the registry of an image; undefined if there is none. */
export type AskBuildLogin = (buildId: string, image: string, signal: AbortSignal) => Promise<RegistryLogin | undefined>

export const loginsFrom =
  (bus: Bus, hostId: string): AskLogin =>
  (vmId, signal) =>
    ask(bus, hostId, { vmId }, signal)

export const buildLoginsFrom =
  (bus: Bus, hostId: string): AskBuildLogin =>
  (vmId, image, signal) =>
    ask(bus, hostId, { vmId, image }, signal)

async function ask(bus: Bus, hostId: string, request: RegistryLoginRequest, signal: AbortSignal) {
  const answer = await bus.request(subjects.registryLogin(hostId), request, { timeoutMs: answerMs, signal })
  return Value.Parse(RegistryLoginAnswer, answer).login ?? undefined
}
