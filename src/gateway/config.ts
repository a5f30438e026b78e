/** The gateway's configuration: parsed once at start; nothing else reads the environment. */
import type { BastionConfig } from './bastion/bastion.ts'

export interface GatewayConfig {
  readonly host: string
  readonly port: number
  /** How long a request to a sleeping app is held. */
  readonly wakeTimeoutMs: number
  /** Until the first byte of an answer. */
  readonly responseTimeoutMs: number
  /** Open connections to one VM. */
  readonly connectionsPerBackend: number
  /** Addresses of proxies in front of us whose `X-Forwarded-For` is kept; from anybody else it is replaced. */
  readonly trustedProxies: readonly string[]
  /** The SSH bastion; undefined: none. */
  readonly bastion: BastionConfig | undefined
}

export const gatewayDefaults = {
  host: '0.0.0.0',
  port: 7080,
  wakeTimeoutMs: 30_000,
  responseTimeoutMs: 60_000,
  connectionsPerBackend: 256,
  trustedProxies: [],
  bastion: undefined,
} as const satisfies GatewayConfig
