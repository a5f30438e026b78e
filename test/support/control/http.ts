import type { FastifyInstance } from 'fastify'

/**
 * Returns a function that sends requests to a server without a socket. The cast is needed because the types of
 * light-my-request lack the method TRACE, which it supports.
 */
export const asker =
  (app: FastifyInstance) =>
  async (method: Method, url: string, headers: Record<string, string> = {}, payload?: string) =>
    app.inject({ method: method as 'GET', url, headers, ...(payload === undefined ? {} : { payload }) })
type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD' | 'OPTIONS' | 'TRACE'
