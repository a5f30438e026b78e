import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { expect, it } from 'vitest'
import type { Route } from '../../contract/gateway.ts'
import { traefikConfiguration } from './traefik.ts'

/**
 * The part of Traefik's dynamic configuration that this test uses. Strict, because Traefik refuses documents with
 * unknown members.
 */
const strict = { additionalProperties: false }
const Configuration = Type.Object(
  {
    http: Type.Object(
      {
        routers: Type.Record(
          Type.String({ pattern: '^[A-Za-z0-9_-]+$' }),
          Type.Object(
            {
              rule: Type.String({ pattern: '^Host\\(`[a-z0-9.-]+`\\)$' }),
              service: Type.String({ minLength: 1 }),
              entryPoints: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })),
            },
            strict,
          ),
        ),
        services: Type.Record(
          Type.String(),
          Type.Object(
            {
              loadBalancer: Type.Object(
                {
                  servers: Type.Array(
                    Type.Object({ url: Type.String({ pattern: '^http://(\\[[0-9a-f:]+\\]|[0-9.]+):\\d+$' }) }, strict),
                    { minItems: 1 },
                  ),
                  passHostHeader: Type.Literal(true),
                },
                strict,
              ),
            },
            strict,
          ),
        ),
      },
      strict,
    ),
  },
  strict,
)

const route = (appId: string, change: Partial<Route> = {}): Route => ({
  hostname: `${appId}.example.com`,
  projectId: 'p',
  appId,
  state: 'live',
  drainSeconds: 1,
  version: 1,
  backends: [
    { vmId: 'v', host: '10.0.0.1', port: 8080 },
    { vmId: 'w', host: 'fd00::1', port: 8080 },
  ],
  ...change,
})
const activator = { host: '127.0.0.1', port: 7080 }

it('Traefik gets routes that lead directly to the VMs of live apps, and to the gateway for all other apps', () => {
  const made = traefikConfiguration(
    [
      route('up'),
      route('asleep', { state: 'sleeping', backends: [] }),
      route('down', { state: 'down', backends: [] }),
      route('odd', { hostname: 'a`) || Host(`b' }),
    ],
    activator,
    ['web'],
  )
  expect([...Value.Errors(Configuration, made)]).toEqual([])
  expect(Object.values(made.http.routers).map(({ rule, service }) => [rule, service])).toEqual([
    ['Host(`up.example.com`)', 'app-up'],
    ['Host(`asleep.example.com`)', 'mote-activator'],
    ['Host(`down.example.com`)', 'mote-activator'],
  ])
  expect(made.http.services['app-up']?.loadBalancer.servers).toEqual([
    { url: 'http://10.0.0.1:8080' },
    { url: 'http://[fd00::1]:8080' },
  ])
  expect(made.http.services['mote-activator']?.loadBalancer.servers).toEqual([{ url: 'http://127.0.0.1:7080' }])
  const names = new Set(Object.keys(made.http.services))
  expect(Object.values(made.http.routers).every(router => names.has(router.service))).toBe(true)
})

it('the schema in this test refuses documents that Traefik would refuse', () => {
  const made = traefikConfiguration([route('up')], activator)
  expect(Value.Check(Configuration, made)).toBe(true)
  expect(Value.Check(Configuration, { http: { ...made.http, middlewares: {} } })).toBe(false)
  expect(
    Value.Check(Configuration, { http: { ...made.http, services: { x: { loadBalancer: { servers: [] } } } } }),
  ).toBe(false)
})
