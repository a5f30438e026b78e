import { useQuery } from '@tanstack/react-query'
import { KeyRound } from 'lucide-react'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queries, queryClient } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { CopyBox } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Choice, Field, type Values } from '../../ui/form.tsx'
import { OwnedList } from '../../ui/owned-list.tsx'
import { Notice } from '../../ui/states.tsx'
import { Badge } from '../../ui/status.tsx'

const scopes = ['read', 'exec', 'deploy', 'write', 'admin'] as const
const meaning = {
  read: 'Read: see everything',
  exec: 'Exec: also run programs, terminals and file copies in VMs',
  deploy: 'Deploy: also deploy, stop and restart',
  write: 'Write: exec and deploy, and create and delete apps and data',
  admin: 'Admin: all of your own permissions',
} as const satisfies Record<(typeof scopes)[number], string>

export function Tokens() {
  const tokens = useQuery(queries.tokens())
  const [created, setCreated] = useState<string>()
  return (
    <>
      <OwnedList
        title="Access tokens"
        lead="For scripts and CI. A token has your permissions, limited by its scope."
        query={tokens}
        refresh={() => queryClient.invalidateQueries({ queryKey: ['tokens'] })}
        nothing={{
          icon: KeyRound,
          title: 'No tokens',
          text: 'The CLI and CI sign in with a token instead of your password.',
        }}
        keyOf={token => token.id}
        nameOf={token => token.name}
        detailOf={token => `…${token.token_last_four}`}
        columns={[
          {
            title: 'Scopes',
            cell: token => (
              <span className="flex flex-wrap gap-1">
                {(token.scopes ?? ['admin']).map(scope => (
                  <Badge key={scope}>{scope}</Badge>
                ))}
                {token.project && <Badge tone="info">{token.project}</Badge>}
              </span>
            ),
          },
          { title: 'Last used', at: token => token.last_used_at },
          { title: 'Expires', at: token => token.expires_at },
        ]}
        add={{
          text: 'New token',
          look: 'primary',
          title: 'New access token',
          submit: 'Create token',
          fields: <TokenFields />,
          send: async values => setCreated(await create(values)),
        }}
        remove={{
          verb: 'Revoke',
          what: 'token',
          consequence: 'Programs that use it stop working immediately.',
          send: token => api.revokeToken({ token_id: token.id }),
        }}
      />
      {created && (
        <Dialog title="Copy your token now" close={() => setCreated(undefined)}>
          <div className="space-y-4">
            <Notice tone="warn">It is not shown again. Anyone with this token has its permissions.</Notice>
            <CopyBox text={created} label="token" />
            <Button look="primary" className="w-full" onClick={() => setCreated(undefined)}>
              I have saved it
            </Button>
          </div>
        </Dialog>
      )}
    </>
  )
}

const dayMs = 86_400_000

/** Creates a token and returns it; the server never shows it again. */
async function create(values: Values): Promise<string> {
  const days = values.number('days')
  const scope = scopes.find(one => one === values.text('scope')) ?? 'read'
  const { token } = await api.createToken({
    body: {
      name: values.text('name'),
      scopes: [scope],
      project: values.optional('project'),
      expires_at: days ? new Date(Date.now() + days * dayMs).toISOString() : undefined,
    },
  })
  return token
}

function TokenFields() {
  const projects = useQuery(queries.projects())
  return (
    <>
      <Field label="Name" name="name" required autoFocus maxLength={100} placeholder="Shop CI" />
      <Choice label="Scope" name="scope" defaultValue="deploy">
        {scopes.map(scope => (
          <option key={scope} value={scope}>
            {meaning[scope]}
          </option>
        ))}
      </Choice>
      <div className="grid grid-cols-2 gap-3">
        <Choice label="Project" name="project" defaultValue="">
          <option value="">All my projects</option>
          {projects.data?.map(project => (
            <option key={project.id} value={project.tenant_id}>
              {project.name}
            </option>
          ))}
        </Choice>
        <Choice label="Expires" name="days" defaultValue="90">
          <option value="7">In 7 days</option>
          <option value="30">In 30 days</option>
          <option value="90">In 90 days</option>
          <option value="365">In a year</option>
          <option value="">Never</option>
        </Choice>
      </div>
    </>
  )
}
