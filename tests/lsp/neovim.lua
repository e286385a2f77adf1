-- Types an error into a.rnn, sees it, applies the fix, and sees it gone.
local function await(what, condition)
  if not vim.wait(10000, condition, 20) then
    io.stderr:write("waited in vain for " .. what .. "\n")
    vim.cmd("cquit 1")
  end
end
vim.cmd("edit a.rnn")
await("the server", function() return next(vim.lsp.buf_get_clients(0)) ~= nil end)
local client = next(vim.lsp.buf_get_clients(0))
vim.api.nvim_buf_set_lines(0, 1, 2, false, { "  y = tahn(x[t])" })
await("the error", function() return #vim.diagnostic.get(0) == 1 end)
print(vim.diagnostic.get(0)[1].message)
local range = { start = { line = 1, character = 6 }, ["end"] = { line = 1, character = 6 } }
local answers = vim.lsp.buf_request_sync(0, "textDocument/codeAction", {
  textDocument = vim.lsp.util.make_text_document_params(),
  range = range,
  context = { diagnostics = {} },
}, 10000)
vim.lsp.util.apply_workspace_edit(answers[client].result[1].edit, "utf-16")
await("the fix", function() return #vim.diagnostic.get(0) == 0 end)
print(vim.api.nvim_buf_get_lines(0, 1, 2, false)[1])
vim.lsp.stop_client(client)
vim.cmd("qall!")
