import { useQuery } from '@tanstack/react-query'
import { KeyRound, Plus } from 'lucide-react'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queries, queryClient } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { CopyBox } from '../../ui/copy.tsx'
import { Destroy, Dialog, FormDialog } from '../../ui/dialog.tsx'
import { Choice, Field } from '../../ui/form.tsx'
import { Card, Mono } from '../../ui/layout.tsx'
import { Empty, Loaded, Notice } from '../../ui/states.tsx'
import { Badge } from '../../ui/status.tsx'
import { Table } from '../../ui/table.tsx'
import { Ago } from '../../ui/time.tsx'

const scopes = ['read', 'deploy', 'write', 'admin'] as const
const meaning = {
  read: 'Read: see everything',
  deploy: 'Deploy: also deploy, stop and restart',
  write: 'Write: also create and delete apps and data',
  admin: 'Admin: everything you may do',
} as const satisfies Record<(typeof scopes)[number], string>

const refresh = () => queryClient.invalidateQueries({ queryKey: ['tokens'] })

export function Tokens() {
  const tokens = useQuery(queries.tokens())
  const [created, setCreated] = useState<string>()
  return (
    <>
      <Card
        flush
        title="Access tokens"
        lead="For scripts and CI. A token does what you may do, within its scope."
        actions={tokens.data && tokens.data.length > 0 && <Create done={setCreated} />}
      >
        <Loaded query={tokens}>
          {all =>
            all.length === 0 ? (
              <Empty icon={KeyRound} title="No tokens" action={<Create done={setCreated} />}>
                The command line and CI sign in with a token instead of your password.
              </Empty>
            ) : (
              <Table
                label="Access tokens"
                rows={all}
                keyOf={token => token.id}
                columns={[
                  {
                    title: 'Name',
                    cell: token => (
                      <div>
                        <p className="font-medium">{token.name}</p>
                        <Mono className="text-muted">…{token.token_last_four}</Mono>
                      </div>
                    ),
                  },
                  {
                    title: 'May',
                    cell: token => (
                      <span className="flex flex-wrap gap-1">
                        {(token.scopes ?? ['admin']).map(scope => (
                          <Badge key={scope}>{scope}</Badge>
                        ))}
                        {token.project && <Badge tone="info">{token.project}</Badge>}
                      </span>
                    ),
                  },
                  { title: 'Used', wideOnly: true, cell: token => <Ago at={token.last_used_at} /> },
                  {
                    title: 'Ends',
                    wideOnly: true,
                    cell: token => <Ago at={token.expires_at} />,
                  },
                  {
                    title: '_Actions',
                    right: true,
                    cell: token => (
                      <Destroy
                        name={token.name}
                        verb="Revoke"
                        what="token"
                        consequence="Whatever uses it stops working at once."
                        send={async () => {
                          await api.revokeToken({ token_id: token.id })
                          await refresh()
                        }}
                        trigger={open => (
                          <Button look="quiet" size="small" onClick={open}>
                            Revoke
                          </Button>
                        )}
                      />
                    ),
                  },
                ]}
              />
            )
          }
        </Loaded>
      </Card>
      {created && (
        <Dialog title="Copy your token now" close={() => setCreated(undefined)}>
          <div className="space-y-4">
            <Notice tone="warn">It is not shown again. Whoever has it can do what it may.</Notice>
            <CopyBox text={created} label="token" />
            <Button look="primary" className="w-full" onClick={() => setCreated(undefined)}>
              I have kept it
            </Button>
          </div>
        </Dialog>
      )}
    </>
  )
}

const dayMs = 86_400_000

function Create({ done }: { readonly done: (token: string) => void }) {
  const projects = useQuery(queries.projects())
  return (
    <FormDialog
      title="New access token"
      submit="Create token"
      trigger={open => (
        <Button size="small" look="primary" onClick={open}>
          <Plus aria-hidden="true" size={13} /> New token
        </Button>
      )}
      send={async values => {
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
        await refresh()
        done(token)
      }}
      fields={
        <>
          <Field label="Name" name="name" required autoFocus maxLength={100} placeholder="CI of the shop" />
          <Choice label="May" name="scope" defaultValue="deploy">
            {scopes.map(scope => (
              <option key={scope} value={scope}>
                {meaning[scope]}
              </option>
            ))}
          </Choice>
          <div className="grid grid-cols-2 gap-3">
            <Choice label="Project" name="project" defaultValue="">
              <option value="">All of mine</option>
              {projects.data?.map(project => (
                <option key={project.id} value={project.tenant_id}>
                  {project.name}
                </option>
              ))}
            </Choice>
            <Choice label="Ends" name="days" defaultValue="90">
              <option value="7">In 7 days</option>
              <option value="30">In 30 days</option>
              <option value="90">In 90 days</option>
              <option value="365">In a year</option>
              <option value="">Never</option>
            </Choice>
          </div>
        </>
      }
    />
  )
}
