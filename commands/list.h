// commands/list.h -- X(NAME): commands/NAME.c, or the file of its subject, defines
// `const struct command command_NAME`. Help and completion show them in this order.

// Model.
X(load)
X(unload)
X(new)
X(info)
X(tokenizer)
// Conversation.
X(image)
X(images)
X(system)
X(ask)
X(regen)
X(undo)
X(clear)
X(context)
X(messages)
X(answer)
// Settings.
X(set)
X(get)
X(reset)
X(settings)
// Sessions and scripts.
X(session)
X(save)
X(run)
// Data and training.
X(adapter)
X(scenes)
X(data)
X(train)
X(sweep)
X(eval)
X(calibrate)
X(calibration)
X(jobs)
X(job)
X(wait)
X(plot)
// Looking inside.
X(tokenize)
X(detokenize)
X(forward)
X(raw)
X(dump)
// The program.
X(help)
X(version)
X(quit)
