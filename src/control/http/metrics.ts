/** Prometheus metrics. They are served at a separate port, because they are for operators and not for tenants. */
import { createServer, type Server } from 'node:http'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { StallWatch } from '../../lib/stalls.ts'
import type { Tally } from '../../lib/tally.ts'
import type { RequestObservation } from './ports.ts'

export interface Metrics {
  readonly registry: Registry
  /** Records a request; passed to the server as `ServerOptions.observe`. */
  request(observation: RequestObservation): void
  /** Called by the workflow runner for each step of a phase, with its outcome. */
  step(kind: string, phase: string, outcome: string, seconds: number): void
}

/**
 * Metrics of every program: its process and the stalls of its event loop.
 * @param refused counts, by kind, the packets, connections and queries of this host's VMs that a limit refused
 */
export function processMetrics(
  stalls: Pick<StallWatch, 'longestMs' | 'stalls' | 'waitedMs'>,
  refused?: Tally,
): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, prefix: 'mote_' })
  new Gauge({
    name: 'mote_event_loop_stall_seconds',
    help: 'Longest stall of the event loop since the last scrape',
    registers: [registry],
    collect() {
      this.set(stalls.longestMs() / 1000)
    },
  })
  let counted = 0
  new Counter({
    name: 'mote_event_loop_stalls_total',
    help: 'Stalls of the event loop longer than 0.2 s',
    registers: [registry],
    collect() {
      this.inc(stalls.stalls() - counted)
      counted = stalls.stalls()
    },
  })
  let waitedMs = 0
  new Counter({
    name: 'mote_event_loop_waiting_seconds_total',
    help: 'Time in which the event loop was ready to run, but other processes used every processor',
    registers: [registry],
    collect() {
      this.inc((stalls.waitedMs() - waitedMs) / 1000)
      waitedMs = stalls.waitedMs()
    },
  })
  if (refused) addRefused(registry, refused)
  return registry
}

function addRefused(registry: Registry, refused: Tally): void {
  new Counter({
    name: 'mote_guest_refused_total',
    help: 'Packets, connections and queries that VMs of this host were refused because they are at a limit, by kind',
    labelNames: ['kind'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [kind, count] of refused.counts()) this.inc({ kind }, count)
    },
  })
}

/** Creates the metrics of the API server. @param openStreams called at every scrape */
export function createMetrics(
  openStreams: () => number,
  stalls: Pick<StallWatch, 'longestMs' | 'stalls' | 'waitedMs'>,
  refused?: Tally,
): Metrics {
  const registry = processMetrics(stalls, refused)
  const requests = new Histogram({
    name: 'mote_http_request_seconds',
    help: 'Time from the first byte of a request to the last of its response, streams excluded',
    labelNames: ['operation', 'method', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers: [registry],
  })
  const streamsEnded = new Counter({
    name: 'mote_http_streams_ended_total',
    help: 'Event streams that have ended',
    labelNames: ['operation'],
    registers: [registry],
  })
  const steps = new Histogram({
    name: 'mote_workflow_step_seconds',
    help: 'Duration of one step of a workflow',
    labelNames: ['kind', 'phase', 'outcome'],
    buckets: [0.001, 0.01, 0.1, 0.5, 1, 5, 15, 60],
    registers: [registry],
  })
  new Gauge({
    name: 'mote_http_open_streams',
    help: 'Event streams that are open',
    registers: [registry],
    collect() {
      this.set(openStreams())
    },
  })
  return {
    registry,
    request({ operation, method, status, seconds, stream }) {
      if (stream && status === 200) streamsEnded.inc({ operation })
      else requests.observe({ operation, method, status: String(status) }, seconds)
    },
    step: (kind, phase, outcome, seconds) => steps.observe({ kind, phase, outcome }, seconds),
  }
}

/** Serves `GET /metrics` and nothing else. The caller closes it at shutdown. */
export function createMetricsServer({ registry }: Pick<Metrics, 'registry'>): Server {
  return createServer((request, response) => {
    if (request.method !== 'GET' || request.url !== '/metrics') return void response.writeHead(404).end()
    registry.metrics().then(
      text => response.writeHead(200, { 'content-type': registry.contentType }).end(text),
      () => response.writeHead(500).end(),
    )
  })
}
