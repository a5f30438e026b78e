import { useQuery } from '@tanstack/react-query'
import { Mail } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, queryClient } from '../../api/queries.ts'
import { leave } from '../../shell/account-menu.tsx'
import { ActionButton } from '../../ui/action.tsx'
import { Button } from '../../ui/button.tsx'
import { Destroy } from '../../ui/dialog.tsx'
import { Check, Field, Form } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { Loaded } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { Email } from './email.tsx'

export function Profile() {
  const me = useQuery(queries.me())
  return (
    <Loaded query={me}>
      {user => (
        <div className="space-y-4">
          <Invitations />
          <Card title="Profile" lead={user.email}>
            <Form
              className="max-w-xl"
              submit="Save"
              send={async values => {
                await api.updateMe({
                  body: {
                    first_name: values.text('first_name'),
                    last_name: values.text('last_name'),
                    avatar_url: values.text('avatar_url'),
                    email_notifications: values.checked('email_notifications'),
                    marketing_emails: values.checked('marketing_emails'),
                  },
                })
                await queryClient.invalidateQueries({ queryKey: ['me'] })
                toast({ tone: 'good', title: 'Profile saved' })
              }}
            >
              <div className="grid grid-cols-2 gap-3">
                <Field label="First name" name="first_name" maxLength={100} defaultValue={user.first_name ?? ''} />
                <Field label="Last name" name="last_name" maxLength={100} defaultValue={user.last_name ?? ''} />
              </div>
              <Field
                label="Picture URL"
                name="avatar_url"
                type="url"
                maxLength={2000}
                placeholder="https://..."
                defaultValue={user.avatar_url ?? ''}
                hint="Only returned by the API: this dashboard does not load pictures from other hosts."
              />
              <Check
                label="Emails about my projects"
                name="email_notifications"
                defaultChecked={user.email_notifications}
                hint="Failed deployments, volume and payment problems. Security emails are always sent."
              />
              <Check label="Product news" name="marketing_emails" defaultChecked={user.marketing_emails} />
            </Form>
          </Card>
          <Email user={user} />
          <Card danger title="Delete the account" lead="Projects without other members are deleted with it.">
            <Destroy
              name={user.email}
              what="account"
              consequence="Your sessions and tokens end immediately. Projects without other members are deleted with everything in them."
              fields={
                <Field label="Password" name="password" type="password" required autoComplete="current-password" />
              }
              send={async values => {
                await api.deleteMe({ body: { password: values.text('password') } })
                await leave()
              }}
              trigger={open => (
                <Button look="danger" onClick={open}>
                  Delete account
                </Button>
              )}
            />
          </Card>
        </div>
      )}
    </Loaded>
  )
}

/** The open invitations of the account; hidden if there are none. */
function Invitations() {
  const invitations = useQuery(queries.invitations())
  if (!invitations.data || invitations.data.length === 0) return null
  return (
    <Card flush title="Invitations">
      <ul className="divide-y divide-line">
        {invitations.data.map(one => (
          <li key={one.id} className="flex flex-wrap items-center gap-3 px-4 py-3">
            <Mail aria-hidden="true" size={16} className="text-muted" />
            <span className="flex-1">
              <span className="font-medium">{one.project_name}</span> invites you as {one.role}.
            </span>
            <ActionButton
              look="primary"
              done={`You are now a member of ${one.project_name}`}
              act={async () => {
                await api.acceptInvitation({ invitation_id: one.id, body: {} })
                await queryClient.invalidateQueries({ queryKey: ['invitations'] })
                await queryClient.invalidateQueries({ queryKey: ['projects'] })
              }}
            >
              Accept
            </ActionButton>
          </li>
        ))}
      </ul>
    </Card>
  )
}
