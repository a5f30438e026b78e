/** Settings of image registries and TCP services. */
import { parsePortRange, type PortRange } from '../../lib/port-range.ts'
import { imagePath, setting, url } from './setting.ts'

/** Parses a port number; undefined for an empty text. @throws Error for any other text */
function portNumber(text: string): number | undefined {
  if (text === '') return undefined
  const port = Number(text)
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new Error('must be a port, from 1 to 65535')
  return port
}

export const edgeSettings = {
  registry: setting(
    'MOTE_REGISTRY',
    '',
    imagePath,
    'registry for built images of several hosts, for example registry.example:5000/apps; when empty, the own registry',
  ),
  registryUrl: setting(
    'MOTE_REGISTRY_URL',
    '',
    url,
    "address of the installation's own registry, as clients and hosts reach it; when empty, that of the registry that a control plane has started",
  ),
  tcpPorts: setting<PortRange | undefined>(
    'MOTE_TCP_PORTS',
    undefined,
    parsePortRange,
    'ports of gateways for TCP services, such as 20000-20999; set it for gateways too; none when empty',
  ),
  tcpTlsPort: setting<number | undefined>(
    'MOTE_TCP_TLS_PORT',
    undefined,
    portNumber,
    'port of gateways for TCP services that clients select by TLS server name; set it for gateways too; none when empty',
  ),
} as const
