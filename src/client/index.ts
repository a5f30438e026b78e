/** The typed client of the API: every operation of the contract as a function. See README.md. */
import { createOperations } from './generated/api.ts'
import { type ClientOptions, createTransport } from './transport.ts'

export * from './generated/api.ts'
export { ApiFailure, type FieldFault } from './errors.ts'
export { shortFailure } from './failure.ts'
export { connectSession, type SessionConnection, type SessionOptions, type SessionResult } from './vm-session.ts'
export type { SessionSignal } from './session-frames.ts'
export { authorOf, imageName, shortImage, versionOf } from './deployment-name.ts'
export type { StreamEvent } from './events.ts'
export { everyItem, type PageQuery } from './pages.ts'
export type { ByteOptions, CallOptions, ClientOptions, StreamOptions } from './transport.ts'
export { newKey } from './transport.ts'

export type Client = ReturnType<typeof createOperations>

/**
 * Creates a client.
 * ```ts
 * const client = createClient({ baseUrl: 'http://localhost:7070', token: () => process.env.MOTE_TOKEN })
 * const apps = await client.listApps()
 * for await (const { event, data } of client.streamAppLogs({ app_name: 'web' })) console.log(event, data)
 * ```
 */
export const createClient = (options: ClientOptions): Client => createOperations(createTransport(options))
