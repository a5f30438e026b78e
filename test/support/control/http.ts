import type { FastifyInstance } from 'fastify'

/** Sends without a socket. light-my-request does not list TRACE among its methods, though it sends it. */
export const asker =
  (app: FastifyInstance) =>
  async (method: Method, url: string, headers: Record<string, string> = {}, payload?: string) =>
    app.inject({ method: method as 'GET', url, headers, ...(payload === undefined ? {} : { payload }) })
type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD' | 'OPTIONS' | 'TRACE'
